import { defineConfig } from "vitest/config";
import { useMemoryForFiles } from "./support/temporary_files.ts";

useMemoryForFiles();

/**
 * For two cores: three processes, because tests wait for a quarter of their time. Each process runs one file
 * after the other, so that it loads a module once and not 200 times. `npm run test:slow`, `test:soak` and
 * `test:cluster` run the tests with these words in their names.
 */
export default defineConfig({
  test: {
    root: new URL("..", import.meta.url).pathname,
    include: ["test/**/*.test.ts"],
    exclude: ["**/*.{slow,soak,cluster}.test.ts", "node_modules/**"],
    globalSetup: ["test/support/global_setup.ts"],
    pool: "forks",
    isolate: false,
    maxWorkers: 3,
    // Long enough for a busy machine: a test that passes does not wait for these.
    testTimeout: 180_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 30_000 } },
    reporters: ["default"],
  },
});
