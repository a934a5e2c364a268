import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type DevStack, startDevStack } from "../support/dev_stack.ts";

const main = fileURLToPath(new URL("../specification/main.ts", import.meta.url));

let stack: DevStack;
beforeAll(async () => {
  stack = await startDevStack();
});
afterAll(() => stack?.stop());

function run(...args: string[]): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { maxBuffer: 2 ** 24 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), output: stdout + stderr }),
    );
  });
}

test("the running stack keeps every row of the specification", async () => {
  const { code, output } = await run("--base-url", stack.baseUrl, "--limits");
  expect(code, output).toBe(0);
  expect(output).not.toMatch(/skipped/);
});

test("the suite ends with 2 when it is called wrongly, with 1 when nobody answers", async () => {
  expect((await run()).code).toBe(2);
  expect((await run("--base-url", "nowhere")).code).toBe(2);
  expect((await run("--base-url", "http://127.0.0.1:1")).code).toBe(1);
});
