import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const MAIN = fileURLToPath(new URL("main.ts", import.meta.url));
const run = (...args: string[]) => spawnSync(process.execPath, [MAIN, ...args], { encoding: "utf8" });

test("a bench that does not exist is refused before anything is measured, and an option's value is none", () => {
  const { status, stderr, stdout } = run("protocol", "verify", "--peer", "node server.js");
  expect([status, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(/^No such bench: verify\. There are: protocol, .*revocation_list\n$/);
});
