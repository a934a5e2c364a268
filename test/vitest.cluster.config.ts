import { defineConfig } from "vitest/config";
import base from "./vitest.config.ts";

/**
 * `npm run test:cluster`: the chart on a real cluster, phase after phase; what a failed one leaves, no other
 * uses.
 */
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
