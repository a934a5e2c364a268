import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const MAIN = fileURLToPath(new URL("../src/main.ts", import.meta.url));
/** A script that reports its process id and its options at each start. */
const REPORT = "data:text/javascript,console.error(JSON.stringify([process.pid,...process.execArgv]))";

const CONNECT = "--network-family-autoselection-attempt-timeout=900";

async function startsOf(
  options: readonly string[],
  environment: Record<string, string> = {},
): Promise<string[][]> {
  const env = { PATH: process.env.PATH, ...environment };
  const args = ["--import", REPORT, ...options, MAIN, "credits", "show", "--help"];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { env });
  expect(stdout).toContain("Usage: deputize credits show");
  return stderr
    .trim()
    .split("\n")
    .map((line) => (JSON.parse(line) as unknown[]).map(String));
}

test("a program restarts itself in the same process, with its own options", async () => {
  const [first, second, ...others] = await startsOf(["--disable-sigusr1"]);
  expect(others).toEqual([]);
  expect(second?.[0]).toBe(first?.[0]);
  const options = [
    "--max-semi-space-size=8",
    "--v8-pool-size=1",
    "--network-family-autoselection-attempt-timeout=2000",
    "--heap-growing-percent=40",
  ];
  expect(second).toEqual(expect.arrayContaining([...options, "--disable-sigusr1"]));
});

test.each([
  [
    "its options and NODE_OPTIONS with underscores",
    ["--max-semi-space-size=16", CONNECT],
    "--v8_pool_size=2",
  ],
  [
    "its options with underscores and NODE_OPTIONS",
    ["--v8_pool_size=2", CONNECT],
    "--max-semi-space-size=16",
  ],
] as const)("a program does not change the options that %s set", async (_, options, nodeOptions) => {
  const starts = await startsOf(options, { NODE_OPTIONS: nodeOptions });
  expect(starts).toHaveLength(1);
  expect(starts.flat()).not.toContain("--max-semi-space-size=8");
});

test("a program adds the options that are not set", async () => {
  const [, second] = await startsOf([], { NODE_OPTIONS: "--max-semi-space-size=16" });
  expect(second).toContain("--v8-pool-size=1");
  expect(second).not.toContain("--max-semi-space-size=8");
});
