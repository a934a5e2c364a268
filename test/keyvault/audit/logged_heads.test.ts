import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { readHeads } from "../../../keyvault/audit/head_file.ts";
import { cli } from "../command_line.ts";
import { createHome, readIdentity, type VaultHome } from "../fixture.ts";
import { call } from "../http/caller_support.ts";
import { runProgram } from "../program.ts";

vi.setConfig({ testTimeout: 60_000 });

const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));

let home: VaultHome;
/** The log of a vault that created a key, was sealed and stopped. */
let lines: string[];

beforeAll(async () => {
  home = await createHome();
  await cp(home.config.token.dir, join(home.dir, "token of that time"), { recursive: true });
  lines = await runVault();
}, 60_000);
afterAll(() => home.remove());

const write = async (name: string, text: string) => {
  const file = join(home.dir, name);
  await writeFile(file, text);
  return file;
};

type Line = { event: string; level: number; port: number; seq: number; why: string };
const parsed = (text: readonly string[]) => text.map((line) => JSON.parse(line) as Line);
const headsIn = (text: readonly string[]) => parsed(text).filter(({ event }) => event === "audit_head");

async function runVault(): Promise<string[]> {
  const environment = {
    ...home.environment,
    KEYVAULT_LOG_LEVEL: "info",
    KEYVAULT_AUDIT_HEADS_LOG_SECONDS: "1",
  };
  const child = spawn(process.execPath, [MAIN, "serve"], { env: environment });
  const written: string[] = [];
  try {
    createInterface({ input: child.stdout }).on("line", (line) => written.push(line));
    const listening = () => parsed(written).find(({ event }) => event === "listening");
    await vi.waitUntil(listening, { timeout: 20_000 });
    const url = `https://localhost:${listening()?.port}`;
    const body = { tenant: "acc-1", purpose: "agent", label: "made", ceiling: [] };
    const headers = { "idempotency-key": "the-only-key" };
    expect(
      (await call(`${url}/v1/keys`, readIdentity(home, "api"), { method: "POST", body, headers })).status,
    ).toBe(200);
    const steady = () => headsIn(written).filter(({ why }) => why === "steady");
    await vi.waitUntil(() => steady().length > 1, { timeout: 20_000 });
    await cli(home, "seal", "--url", url);
  } finally {
    child.kill("SIGTERM");
    await once(child, "close");
  }
  return written;
}

test("the vault logs the audit head at startup, at intervals, at a sealing and at shutdown, with increasing numbers", () => {
  const heads = headsIn(lines);
  const order = heads.map(({ why }) => why).filter((why, index, all) => why !== all[index - 1]);
  // A sealed vault also logs its head at intervals, so if shutdown takes a second, `steady` follows `sealed`.
  expect(order.join(" ")).toMatch(/^start steady sealed( steady)? stop$/);
  const [first, sealed] = [heads[0]?.seq ?? 0, heads.find(({ why }) => why === "sealed")?.seq ?? 0];
  expect(sealed).toBeGreaterThan(first + 1);
});

test("keyvault serve warns about its exposure, logs no level below its setting, and stops when standard input ends", async () => {
  const settings = { KEYVAULT_LOG_LEVEL: "warn", KEYVAULT_EXIT_ON_STDIN_CLOSE: "1" };
  const { code, output } = await runProgram(home, ["serve"], { environment: settings });
  expect(code).toBe(0);
  const written = parsed(output.trim().split("\n"));
  expect(written.map(({ event }) => event)).toContain("owner_url_present");
  expect(written.filter(({ level }) => level < 40)).toEqual([]);
});

test("audit verify reads the vault's log with and without the prefixes of kubectl and log collectors", async () => {
  const stamp = "2026-11-25T10:00:00.123456789Z";
  for (const [name, prefix] of [
    ["plain", ""],
    ["with time stamps", `${stamp} `],
    ["of a container runtime", `${stamp} stdout F `],
    ["with the pod's name", "[pod/deputize-keyvault-0/keyvault] "],
  ] as const) {
    const file = await write(name, lines.map((line) => `${prefix}${line}\n`).join(""));
    expect((await readHeads(file)).heads, name).toHaveLength(headsIn(lines).length);
  }
  const file = await write("log", `${lines.join("\n")}\n`);
  expect((await cli(home, "audit", "verify", "--heads", file)).stdout).toContain(
    `the heads noted before are among them (${headsIn(lines).length})`,
  );
});

test("audit verify names a log line that was altered or that the vault did not write", async () => {
  const head = lines.find((line) => line.includes("audit_head")) ?? "";
  for (const wrong of [
    head.replace(/"mac":"./, '"mac":"'),
    head.replace('"part":"keyvault"', '"part":"other"'),
    head.replace(/"seq":\d+/, '"seq":-1'),
    head.slice(0, -2),
    "Killed",
  ]) {
    const file = await write("altered", `${head}\n${wrong}\n${head}\n`);
    await expect(readHeads(file), wrong).rejects.toThrow("line 2 is not a head");
  }
  const none = await write("none", `${lines.filter((line) => !line.includes("audit_head")).join("\n")}\n`);
  await expect(cli(home, "audit", "verify", "--heads", none)).rejects.toThrow(/holds no head/);
});

test("audit verify detects from the log that database and token were both set back to an earlier state", async () => {
  const file = await write("kept elsewhere", `${lines.join("\n")}\n`);
  const first = headsIn(lines)[0]?.seq ?? 0;
  await home.sql("alter table audit disable trigger audit_append_only");
  await home.sql("delete from audit where seq > $1", [first]);
  await home.sql("delete from keys where tenant = 'acc-1'; delete from tenants where tenant = 'acc-1'");
  await rm(home.config.token.dir, { recursive: true });
  await cp(join(home.dir, "token of that time"), home.config.token.dir, { recursive: true });
  expect((await cli(home, "audit", "verify")).stdout).toMatch(/records are intact/);
  await expect(cli(home, "audit", "verify", "--heads", file)).rejects.toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/those after it were cut off/),
  });
});
