import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

test.each([
  ["test/ids.test.ts", "npm test"],
  ["test/e2e/two_apis.slow.test.ts", "npm run test:slow"],
  ["test/proofs/races.soak.test.ts", "npm run test:soak"],
  ["test/cluster/life.cluster.test.ts", "npm run test:cluster"],
])("Vitest without a configuration prints one sentence on how to run %s", (path, script) => {
  const args = ["node_modules/vitest/vitest.mjs", "run", path];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, encoding: "utf8" });
  expect([status, stdout, stderr]).toEqual([
    1,
    "",
    `Vitest alone starts no database; run the tests with: ${script} -- ${path}\n`,
  ]);
});
