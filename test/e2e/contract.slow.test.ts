import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { killHard, until } from "../support/process.ts";

const program = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const contract = fileURLToPath(new URL("../contract.ts", import.meta.url));
const STARTED_MS = 180_000;

let folder: string;
let stack: ReturnType<typeof spawn>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-contract-"));
  stack = spawn(process.execPath, [program, "dev", "--port", "0", "--data", folder], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let said = "";
  stack.stdout?.on("data", (chunk: Buffer) => {
    said += chunk;
  });
  await until("everything is up", () => said.includes("Ctrl-C ends everything"), STARTED_MS);
});

afterAll(async () => {
  stack.kill("SIGINT");
  await Promise.race([once(stack, "exit"), until("the stack ends", () => stack.exitCode !== null, 60_000)]);
  await killHard(stack);
  await rm(folder, { recursive: true, force: true });
});

function run(...args: string[]): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [contract, ...args], { maxBuffer: 2 ** 24 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), output: stdout + stderr }),
    );
  });
}

test("the running stack keeps every row of the specification", async () => {
  const { base_url } = JSON.parse(await readFile(join(folder, "connection.json"), "utf8"));
  const { code, output } = await run("--base-url", base_url, "--limits");
  expect(code, output).toBe(0);
  expect(output).not.toMatch(/skipped/);
});

test("the suite ends with 2 when it is called wrongly, with 1 when nobody answers", async () => {
  expect((await run()).code).toBe(2);
  expect((await run("--base-url", "nowhere")).code).toBe(2);
  expect((await run("--base-url", "http://127.0.0.1:1")).code).toBe(1);
});
