import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

test.each([
  ["test/upkeep.test.ts", "npm test"],
  ["test/keyvault/disk_full.slow.test.ts", "npm run test:slow"],
])("Vitest without a configuration prints one sentence on how to run %s", (path, script) => {
  const args = ["node_modules/vitest/vitest.mjs", "run", "--reporter=dot", path];
  const env = { ...process.env, NO_COLOR: "1" };
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, env, encoding: "utf8" });
  expect(status).toBe(1);
  expect(stderr).toContain(
    `Error: Vitest alone starts no database; run this test with: ${script} -- ${path}\n`,
  );
});
