import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const SCRIPTS = {
  "test/upkeep.test.ts": "npm test",
  "test/keyvault/disk_full.slow.test.ts": "npm run test:slow",
};

test("Vitest without the project's configuration prints the command that runs the test, in one sentence", () => {
  const paths = Object.keys(SCRIPTS);
  const args = ["node_modules/vitest/vitest.mjs", "run", "--reporter=dot", ...paths];
  const env = { ...process.env, NO_COLOR: "1" };
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, env, encoding: "utf8" });
  expect(status).toBe(1);
  for (const [path, script] of Object.entries(SCRIPTS)) {
    expect(stderr).toContain(
      `Error: Vitest alone starts no database; run this test with: ${script} -- ${path}\n`,
    );
  }
});
