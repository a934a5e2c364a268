import { defineConfig } from "vitest/config";

/** Two cores: two files at a time, each in a process of its own. Tests in `slow` folders or named `*.slow.test.ts` run by `npm run test:slow`. */
export default defineConfig({
  test: {
    root: new URL("..", import.meta.url).pathname,
    include: ["test/**/*.test.ts"],
    exclude: ["**/*.slow.test.ts", "node_modules/**"],
    globalSetup: ["test/support/global_setup.ts"],
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: ["default"],
  },
});
