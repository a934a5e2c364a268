import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { appendHead, keepHeads, readHeads } from "../../../keyvault/audit/head_file.ts";
import type { AuditPage, AuditView } from "../../../keyvault/audit/list.ts";
import { verifyChain } from "../../../keyvault/audit/verify_chain.ts";
import type { Head } from "../../../keyvault/audit/writer_connection.ts";
import { auditHeader, auditLine } from "../../../keyvault/commands/audit_tail.ts";
import { cli } from "../command_line.ts";
import { API, issueIdentity, SILENT, startVault, type TestVault } from "../fixture.ts";
import { type Client, call } from "../http/caller_support.ts";

const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));

vi.setConfig({ testTimeout: 120_000 });

let vault: TestVault;
let auditor: Client;

beforeAll(async () => {
  vault = await startVault();
  auditor = await issueIdentity(vault.home, { kind: "client", role: "auditor", name: "audit" });
  for (const label of ["one", "two", "three"]) {
    await vault.makeKey({ tenant: "acc-1", purpose: "agent", label });
  }
});
afterAll(() => vault.close());

const read = async (query: string): Promise<AuditPage> =>
  (await call(`${vault.url}/v1/audit?${query}`, auditor)).body as unknown as AuditPage;
const audit = (...args: string[]) => cli(vault.home, "audit", ...args);
const headsOf = async (file: string) => (await readHeads(file)).heads;
const record = (note: string) =>
  vault.vault.journal.record({ caller: API, statement: "call", outcome: "forbidden", detail: { note } });

const AT = new Date("2026-11-21T10:00:00.000Z");
const lineOf = ({ seq, mac }: Head) => `${AT.toISOString()} ${seq}:${mac.toString("hex")}`;

test("GET /v1/audit returns the whole chain in pages, each record once and in order", async () => {
  const seen: AuditView[] = [];
  for (let after: number | null = 0; after !== null; ) {
    const page: AuditPage = await read(`after=${after}&limit=2`);
    expect(page.records).not.toEqual([]);
    seen.push(...page.records);
    after = page.next;
  }
  expect((await read(`after=0&limit=${seen.length}`)).next, "a last page that is full").toBeNull();
  const rows = await vault.home.sql(
    "select seq::int, encode(mac, 'hex') as mac, statement from audit order by seq",
  );
  expect(seen.map(({ seq, mac, statement }) => ({ seq, mac, statement }))).toEqual(rows);
  expect((await read("limit=1")).records).toEqual(seen.slice(-1));
  expect((await read(`after=${seen.length}`)).records).toEqual([]);
  for (const query of ["limit=0", "limit=1001", "after=-1", "after=x", "order=desc"]) {
    expect((await call(`${vault.url}/v1/audit?${query}`, auditor)).status, query).toBe(400);
  }
});

test("audit tail aligns its lines within 80 and 120 columns, whatever they contain", () => {
  const widest: AuditView = {
    seq: 999_999,
    recorded_at: "2026-11-21T10:00:00.123Z",
    caller: "x".repeat(64),
    role: "auditor",
    key_id: "f".repeat(32),
    purpose: "agent",
    statement: "key_destroy_cancel",
    digest: null,
    outcome: "idempotency_conflict",
    detail: {},
    mac: "0".repeat(64),
  };
  const plain = { ...widest, seq: 1, caller: "api", outcome: "granted", key_id: null };
  for (const width of [80, 120]) {
    const lines = [auditHeader(width), auditLine(widest, width), auditLine(plain, width)];
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(width);
    const at = auditHeader(width).indexOf("OUTCOME");
    expect(lines[1]?.slice(at)).toMatch(/^idempotency_con/);
    expect(lines[2]?.slice(at)).toBe("granted");
  }
  expect(auditLine(widest, 120)).toContain("f".repeat(32));
});

test("the audit commands show and follow the newest records, and export heads that reveal missing last records", async () => {
  const remote = ["--url", vault.url];
  const { stdout } = await audit("tail", "-n", "2", ...remote);
  expect(stdout.trim().split("\n")).toHaveLength(3);
  expect(stdout).toMatch(/SEQ +TIME.*\n.*key_create +granted/);
  const json = (await audit("tail", "-n", "1", "--json", ...remote)).stdout;
  expect(JSON.parse(json)).toEqual((await read("limit=1")).records[0]);

  const follower = spawn(process.execPath, [MAIN, "audit", "tail", "-n", "1", "-f", "--json", ...remote], {
    env: vault.home.environment,
  });
  const lines = createInterface({ input: follower.stdout });
  await once(lines, "line");
  const next = once(lines, "line");
  await record("followed");
  expect(JSON.parse((await next)[0] as string)).toMatchObject({ detail: { note: "followed" } });
  follower.kill("SIGKILL");

  const file = join(vault.home.dir, "exported");
  await audit("export", file, ...remote);
  await record("after the first head");
  await audit("export", file, ...remote);
  expect(await headsOf(file)).toHaveLength(2);
  await audit("verify", "--heads", file);
  const [, second] = await headsOf(file);
  await writeFile(file, `${new Date().toISOString()} ${second!.seq + 1}:${"0".repeat(64)}\n`, { flag: "a" });
  await expect(audit("verify", "--heads", file)).rejects.toMatchObject({ code: 1 });
  await writeFile(file, "nonsense\n");
  await expect(audit("verify", "--heads", file)).rejects.toThrow(/line 1 is not a head/);
});

test("the vault writes the audit head to the file when the head changes and at shutdown", async () => {
  const file = join(vault.home.dir, "kept");
  const { journal, token } = vault.vault;
  const parts = { journal, token, clock: vault.clock, log: SILENT, file, logEveryMs: 3_600_000 };
  const heads = keepHeads(parts, 10);
  const noted = () => headsOf(file).catch(() => []);
  await expect.poll(async () => (await noted()).length).toBe(1);
  await record("moves it");
  await expect.poll(async () => (await noted()).length).toBe(2);
  await heads.stop();
  await heads.stop();
  expect(await noted()).toHaveLength(2);
  const stopping = keepHeads(parts, 3_600_000);
  await record("before the stop");
  await stopping.stop();
  expect((await noted()).at(-1)).toEqual(vault.vault.journal.head());
  expect((await verifyChain(vault.vault.database, vault.vault.token, await noted())).intact).toBe(true);
  expect((await readFile(file, "utf8")).split("\n")[0]).toMatch(/^\d{4}-\d\d-\d\dT\S+Z \d+:[0-9a-f]{64}$/);
});

test("a head file is readable only by its owner, and heads can be appended to a file of any length", async () => {
  const file = join(vault.home.dir, "long");
  const head = vault.vault.journal.head();
  for (let count = 0; count < 60; count += 1) await appendHead(file, head, AT);
  await writeFile(file, lineOf(head).slice(0, 40), { flag: "a" });
  for (let count = 0; count < 2; count += 1) await appendHead(file, head, AT);
  const { heads, unfinished } = await readHeads(file);
  expect(heads).toHaveLength(62);
  expect(unfinished).toEqual([61]);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
});

test("GET /v1/audit is allowed for an admin", async () => {
  const answer = await call(`${vault.url}/v1/audit`, vault.admin);
  expect(answer.status).toBe(200);
});

test("the vault repeats a failed write of a head even if there is no new record", async () => {
  const folder = join(vault.home.dir, "not-yet");
  const file = join(folder, "heads");
  const { journal, token } = vault.vault;
  const parts = { journal, token, clock: vault.clock, log: SILENT, file, logEveryMs: 3_600_000 };
  const heads = keepHeads(parts, 10);
  await sleep(50);
  await mkdir(folder);
  await expect.poll(async () => (await headsOf(file).catch(() => [])).length).toBe(1);
  await heads.stop();
  expect(await headsOf(file)).toEqual([vault.vault.journal.head()]);
});

test("readHeads reports an incomplete line and returns the heads around it", async () => {
  const head = vault.vault.journal.head();
  const line = lineOf(head);
  for (const length of [1, 24, 30, line.length - 1]) {
    const file = join(vault.home.dir, `cut-off-${length}`);
    await writeFile(file, `${line}\n${line.slice(0, length)}`);
    expect(await readHeads(file)).toEqual({ heads: [head], unfinished: [2] });
    await appendHead(file, head, AT);
    expect(await readHeads(file)).toEqual({ heads: [head, head], unfinished: [2] });
    await appendHead(file, head, AT);
    expect(await readHeads(file)).toEqual({ heads: [head, head, head], unfinished: [2] });
    expect((await readFile(file, "utf8")).split("\n").slice(2)).toEqual([line, line, ""]);
  }
  const zeros = join(vault.home.dir, "zeros");
  await writeFile(zeros, Buffer.concat([Buffer.from(`${line}\n`), Buffer.alloc(90)]));
  await appendHead(zeros, head, AT);
  expect(await readHeads(zeros)).toEqual({ heads: [head, head], unfinished: [2] });
});

test("readHeads accepts a complete last line without a newline", async () => {
  const head = vault.vault.journal.head();
  const file = join(vault.home.dir, "without-an-end");
  await writeFile(file, lineOf(head));
  expect(await readHeads(file)).toEqual({ heads: [head], unfinished: [] });
  await appendHead(file, head, AT);
  expect(await readFile(file, "utf8")).toBe(`${lineOf(head)}\n${lineOf(head)}\n`);
});

test("readHeads rejects a damaged line and names its number", async () => {
  const line = lineOf(vault.vault.journal.head());
  const file = join(vault.home.dir, "damaged");
  for (const [text, number] of [
    [`${line}\n${line.slice(0, -1)}\n${line}\n`, 2],
    [`${line}\n\n${line.slice(0, -1)}\n`, 3],
    [`${line.slice(0, -1)}\n${line.slice(0, 9)}`, 1],
  ] as const) {
    await writeFile(file, text);
    await expect(readHeads(file)).rejects.toThrow(`line ${number} is not a head`);
  }
});

test("audit verify reports an incomplete line, compares the other heads, and fails if all lines are incomplete", async () => {
  const file = join(vault.home.dir, "torn");
  const head = vault.vault.journal.head();
  await writeFile(file, `${lineOf(head)}\n2026-11-2`);
  expect((await audit("verify", "--heads", file)).stdout).toMatch(
    /heads noted before are among them \(1\)[\s\S]*line 2 is incomplete/,
  );
  expect(JSON.parse((await audit("verify", "--json", "--heads", file)).stdout)).toMatchObject({
    intact: true,
    unfinished: [2],
  });
  await appendFile(file, "1");
  await appendHead(file, { seq: head.seq + 1, mac: Buffer.alloc(32) }, AT);
  await expect(audit("verify", "--heads", file)).rejects.toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/The chain is broken[\s\S]*line 2 is incomplete/),
  });
  await writeFile(file, "2026-11-2");
  await expect(audit("verify", "--heads", file)).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/holds no head/),
  });
});
