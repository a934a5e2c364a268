import { defineConfig } from "vitest/config";
import { useMemoryForFiles } from "./support/temporary_files.ts";

useMemoryForFiles();

/**
 * For two cores: two processes, each with one file after the other, so that a module is loaded twice and not
 * 300 times. `npm run test:slow`, `test:soak` and `test:cluster` run the tests with these words in their
 * names.
 */
export default defineConfig({
  test: {
    root: new URL("..", import.meta.url).pathname,
    include: ["test/**/*.test.ts"],
    exclude: ["**/*.{slow,soak,cluster}.test.ts", "node_modules/**"],
    globalSetup: ["test/support/global_setup.ts"],
    pool: "forks",
    isolate: false,
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    reporters: ["default"],
  },
});
