import { writeFile } from "node:fs/promises";
import { Readable } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createBackups, measureLastBackup } from "../../../keyvault/backup/create.ts";
import { createRecoveryKey } from "../../../keyvault/backup/encrypted_stream.ts";
import {
  backupSignBytes,
  type Manifest,
  openLines,
  type RowsLine,
  readLine,
  signerOf,
} from "../../../keyvault/backup/format.ts";
import type { Database } from "../../../keyvault/db/database.ts";
import type { AuditRow } from "../../../keyvault/db/rows.ts";
import { isRefusal } from "../../../keyvault/errors.ts";
import { createMetrics } from "../../../keyvault/metrics.ts";
import { generateKeys, keyId, signHybridOnce } from "../../../src/protocol/keys/hybrid.ts";
import { ADMIN, SILENT, startVault, type TestVault } from "../fixture.ts";

let vault: TestVault;

beforeAll(async () => {
  vault = await startVault();
});
afterAll(() => vault.close());

const makeKey = (tenant: string) => vault.makeKey({ tenant, purpose: "agent", label: "agent", ceiling: [] });

test("a backup contains the state at the time of its record, even if the backup is read later", async () => {
  const { home, clock } = vault;
  const { publicKey, privateKey } = createRecoveryKey();
  await writeFile(home.config.recoveryKeyFile, publicKey);
  await makeKey("acc-before");
  const { seq } = vault.vault.journal.head();
  const begun = await createBackups({ ...vault.vault, config: home.config, clock, metrics: createMetrics() })(
    ADMIN,
  );
  if (isRefusal(begun)) throw new Error(begun.message);
  await makeKey("acc-after");
  const backup = Buffer.concat(await Array.fromAsync(begun as AsyncIterable<Buffer>));
  const lines = (await Array.fromAsync(openLines(Readable.from([backup]), privateKey))).map(readLine);
  const rowsOf = (table: string): unknown[] =>
    lines
      .filter((line): line is RowsLine => line.kind === "rows" && line.table === table)
      .flatMap(({ rows }) => rows);
  expect((lines[0] as Manifest).head.seq).toBe(seq);
  expect((rowsOf("audit").at(-1) as AuditRow).seq).toBe(seq);
  const tenants = rowsOf("tenants").map((row) => (row as { tenant: string }).tenant);
  expect(tenants).toContain("acc-before");
  expect(tenants).not.toContain("acc-after");
});

test("signerOf returns undefined if a statement's head, time or digest differs from the manifest", async () => {
  const { seeds, publicKey } = await generateKeys();
  const manifest = { created_at: "2030-01-01T00:00:00.000Z", head: { seq: 7, mac: "aa" } };
  const digest = Buffer.alloc(32, 1);
  const signed_by = keyId(publicKey);
  const said = {
    type: "backup",
    version: 1,
    ...manifest,
    digest: digest.toString("base64"),
    signed_by,
  } as const;
  const signature = await signHybridOnce(seeds, backupSignBytes(said));
  const line = { kind: "signature", statement: said, public_key: publicKey, signature };
  expect(await signerOf(line, manifest, digest)).toBe(signed_by);
  const { head } = manifest;
  expect(await signerOf(line, { ...manifest, head: { ...head, seq: 8 } }, digest)).toBeUndefined();
  expect(await signerOf(line, { ...manifest, head: { ...head, mac: "bb" } }, digest)).toBeUndefined();
  expect(await signerOf(line, { ...manifest, created_at: "2030" }, digest)).toBeUndefined();
  expect(await signerOf(line, manifest, Buffer.alloc(32, 2))).toBeUndefined();
});

const parts = () => ({
  ...vault.vault,
  config: vault.home.config,
  clock: vault.clock,
  metrics: createMetrics(),
});
const open = () =>
  vault.home.sql<{ pid: number }>(
    "select pid from pg_stat_activity where datname = current_database() and state = 'idle in transaction'",
  );

async function begin(other: Partial<Parameters<typeof createBackups>[0]> = {}): Promise<Readable> {
  await writeFile(vault.home.config.recoveryKeyFile, createRecoveryKey().publicKey);
  const begun = await createBackups({ ...parts(), ...other })(ADMIN);
  if (isRefusal(begun)) throw new Error(begun.message);
  return begun;
}

test.each([
  ["read completely", (begun: Readable) => Array.fromAsync(begun)],
  [
    "dropped in the middle",
    (begun: Readable) =>
      begun
        .iterator()
        .next()
        .then(() => begun.destroy()),
  ],
  ["dropped before its first chunk", async (begun: Readable) => begun.destroy()],
])("a backup that was %s leaves no open transaction in the database", async (_, read) => {
  const begun = await begin();
  expect(await open()).toHaveLength(1);
  await read(begun);
  await expect.poll(open, { timeout: 20_000 }).toEqual([]);
});

test("a backup that cannot start leaves no open transaction and no record", async () => {
  // Counts only records of starts. The record that an earlier backup was dropped can still arrive.
  const starts = async () => {
    const records = await vault.vault.database<AuditRow>("audit").where({ statement: "backup" });
    return records.filter(({ detail }) => detail.step === undefined).length;
  };
  const before = await starts();
  const { token, ...config } = vault.home.config;
  const missing = { ...config, token: { ...token, managed: true, dir: "/does/not/exist" } as typeof token };
  await expect(begin({ config: missing })).rejects.toThrow();
  await expect.poll(open, { timeout: 20_000 }).toEqual([]);
  expect(await starts()).toBe(before);
});

test("a backup is aborted if its database connection is lost, and the vault continues", async () => {
  const begun = await begin();
  const [session] = await open();
  await vault.home.sql("select pg_terminate_backend($1)", [session?.pid]);
  await expect(Array.fromAsync(begun)).rejects.toThrow();
  await makeKey("acc-after-that");
});

test("a backup that the service key fails to sign gets a failed record after its granted record", async () => {
  const custody = { sign: () => Promise.reject(new Error("no token")) };
  await expect(Array.fromAsync(await begin({ custody }))).rejects.toThrow("no token");
  const records = await vault.vault.database<AuditRow>("audit").orderBy("seq", "desc").limit(3);
  expect(records.map(({ statement, outcome, detail }) => [statement, outcome, detail.step])).toEqual([
    ["backup", "failed", "signed"],
    ["backup", "granted", "signed"],
    ["backup", "granted", undefined],
  ]);
});

test("measureLastBackup keeps the time of a newer backup, and logs a fault of the database", async () => {
  const told: unknown[] = [];
  const log = Object.assign(Object.create(SILENT), { warn: (line: unknown) => told.push(line) });
  const { lastBackup } = createMetrics();
  lastBackup.set(2_000);
  const answering = (raw: () => Promise<unknown>) =>
    measureLastBackup({ raw } as unknown as Database, { lastBackup }, log);
  await answering(async () => ({ rows: [{ recorded_at: new Date(1_000_000) }] }));
  expect((await lastBackup.get()).values[0]?.value).toBe(2_000);
  await answering(() => Promise.reject(new Error("no database")));
  expect(told).toEqual([{ event: "last_backup_unknown", reason: "no database" }]);
  await answering(async () => ({ rows: [{ recorded_at: new Date(3_000_999) }] }));
  expect((await lastBackup.get()).values[0]?.value).toBe(3_000);
});
