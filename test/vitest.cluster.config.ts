import { defineConfig } from "vitest/config";
import base from "./vitest.config.ts";

/** `npm run test:cluster`: tests the chart on a real cluster, one phase after the other. */
export default defineConfig({
  test: {
    ...base.test,
    include: ["test/cluster/**/*.cluster.test.ts"],
    exclude: ["node_modules/**"],
    globalSetup: [],
    maxWorkers: 1,
    bail: 1,
    disableConsoleIntercept: true,
    testTimeout: 1_200_000,
    hookTimeout: 1_800_000,
  },
});
