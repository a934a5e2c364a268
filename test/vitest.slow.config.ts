import { defineConfig } from "vitest/config";
import base from "./vitest.config.ts";

/** Runs the slow tests, one file at a time: each takes minutes or the whole machine. */
export default defineConfig({
  test: {
    ...base.test,
    include: ["test/**/*.slow.test.ts"],
    exclude: ["node_modules/**"],
    maxWorkers: 1,
    isolate: true,
    testTimeout: 600_000,
    hookTimeout: 600_000,
  },
});
