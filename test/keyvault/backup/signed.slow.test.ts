import { execFile } from "node:child_process";
import { hash } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Origin } from "../../../keyvault/backup/check.ts";
import { backupSignBytes, openLines, readLine, type SignatureLine } from "../../../keyvault/backup/format.ts";
import { restoreBackup } from "../../../keyvault/backup/restore.ts";
import { migrate } from "../../../keyvault/db/migrate.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { generateKeys, keyId, signHybridOnce, verifyHybrid } from "../../../src/protocol/keys/hybrid.ts";
import { cli } from "../command_line.ts";
import { SILENT, startVault, type TestVault, type VaultHome } from "../fixture.ts";
import { call } from "../http/caller_support.ts";
import { expectNothing, sealLines } from "./backup_support.ts";
import { earlierRows, machineFor, machineOfLevel } from "./earlier_support.ts";

vi.setConfig({ testTimeout: 120_000 });

const WITHOUT_CODES = 2;

type Line = Record<string, unknown> & { kind: string };

let vault: TestVault;
let agent: CreatedKey;
let serviceKey: string;
let file: string;
let recoveryKeyFile: string;
let recoveryKey: string;
let publicRecoveryKey: string;
let bytes: Buffer;
const homes: VaultHome[] = [];

beforeAll(async () => {
  vault = await startVault();
  agent = await vault.makeAgent("acc-1");
  serviceKey = agent.attestation.attested_by;
  file = join(vault.home.dir, "backup");
  recoveryKeyFile = join(vault.home.dir, "recovery.key");
  await cli(vault.home, "backup", "key", recoveryKeyFile);
  recoveryKey = await readFile(recoveryKeyFile, "utf8");
  publicRecoveryKey = await readFile(vault.home.config.recoveryKeyFile, "utf8");
  bytes = await take(file);
}, 120_000);
afterAll(async () => {
  await vault.close();
  for (const home of homes) await home.remove();
});

async function take(path: string): Promise<Buffer> {
  await cli(vault.home, "backup", "create", path, "--url", vault.url);
  return readFile(path);
}

async function emptyMachine(): Promise<VaultHome> {
  const home = await machineFor(vault);
  homes.push(home);
  return home;
}

async function linesOf(backup: Buffer): Promise<Line[]> {
  const lines = await Array.fromAsync(openLines(Readable.from([backup]), recoveryKey));
  return lines.map((line) => readLine(line) as unknown as Line);
}

const sealed = (lines: readonly object[]) => sealLines(lines, publicRecoveryKey);

/** A restore reads the backup twice. `then` is the content of the second read. */
function restoreFrom({ config }: VaultHome, backup: Buffer, origin: Origin = { serviceKey }, then = backup) {
  const readings = [backup, then];
  const read = () => Readable.from([readings.shift()]);
  return restoreBackup(config, read, { recoveryKey, origin }, SILENT);
}

async function failure(home: VaultHome, ...options: string[]): Promise<string> {
  const { code, stderr } = await failed(home, ...options);
  expect(code).toBe(1);
  return stderr;
}

async function failed(home: VaultHome, ...options: string[]): Promise<{ code: number; stderr: string }> {
  const restoring = cli(home, "backup", "restore", file, "--recovery-key", recoveryKeyFile, ...options);
  return restoring.then(
    ({ stderr }) => ({ code: 0, stderr }),
    (error: { code: number; stderr: string }) => error,
  );
}

const changed = (lines: readonly Line[], index: number, members: object): Line[] =>
  lines.with(index, { ...lines.at(index)!, ...members });

test("a restore requires the id of the service key that signed the backup, and prints that id", async () => {
  const home = await emptyMachine();
  const { service_key } = (await call(`${vault.url}/v1/status`, vault.admin)).body;
  expect(service_key).toBe(serviceKey);
  expect((await cli(vault.home, "status", "--url", vault.url)).stdout).toContain(serviceKey);

  const named = `keyvault: The backup is signed by the service key ${serviceKey}`;
  expect(await failure(home)).toBe(`${named}: if that is your vault's, pass it as --service-key\n`);
  expect(await failure(home, "--unsigned")).toBe(
    `${named}: if that is your vault's, pass it as --service-key\n`,
  );
  const other = "0".repeat(32);
  expect(await failure(home, "--service-key", other)).toBe(
    `${named}, not by ${other} of --service-key: take a backup of that vault\n`,
  );
  expect(await failed(home, "--service-key", serviceKey, "--unsigned")).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(
      /^keyvault: .*cannot be used with .*; see "keyvault backup restore --help"\n$/,
    ),
  });
  await expectNothing(home);

  const { stdout } = await cli(
    home,
    ...["backup", "restore", file, "--recovery-key", recoveryKeyFile, "--service-key", serviceKey, "--json"],
  );
  expect(JSON.parse(stdout)).toMatchObject({ signed_by: serviceKey });
  expect((await cli(home, "audit", "verify")).stdout).toMatch(/records are intact/);
});

test("a restore rejects a forged backup with one line and leaves nothing behind", async () => {
  const lines = await linesOf(bytes);
  const [manifest, signature] = [lines[0]!, lines.at(-1) as unknown as SignatureLine];
  expect(manifest).toMatchObject({ kind: "manifest", version: 2 });
  const keys = lines.findIndex(({ kind, table }) => kind === "rows" && table === "keys");
  const audit = lines.findIndex(({ kind, table }) => kind === "rows" && table === "audit");
  const rows = lines[keys]!.rows as Record<string, unknown>[];
  const wider = rows.map((row) => ({ ...row, ceiling: ["payments:send"] }));
  const later = (await linesOf(await take(join(vault.home.dir, "later")))).at(-1)!;
  const own = await generateKeys();
  const ownSigned = async (said: Partial<SignatureLine["statement"]>, publicKey = own.publicKey) => {
    const statement = { ...signature.statement, ...said };
    const signed = await signHybridOnce(own.seeds, backupSignBytes(statement));
    return lines.with(-1, { kind: "signature", statement, public_key: publicKey, signature: signed });
  };
  const stranger = keyId(own.publicKey);
  const broken = /^The backup's signature is not valid: no vault wrote it in this form; take another backup$/;
  const forgeries: Record<string, [Line[], RegExp]> = {
    "a wider ceiling": [changed(lines, keys, { rows: wider }), broken],
    "fewer rows": [lines.toSpliced(audit, 1), broken],
    "rows twice": [lines.toSpliced(audit, 0, lines[audit]!), broken],
    "another order": [lines.with(keys, lines[audit]!).with(audit, lines[keys]!), broken],
    "another token": [changed(lines, 0, { token: { pin: "" } }), broken],
    "another head": [changed(lines, 0, { head: { seq: 1, mac: "00".repeat(32) } }), broken],
    "another time": [changed(lines, 0, { created_at: "2030-01-01T00:00:00.000Z" }), broken],
    "no signature": [lines.slice(0, -1), broken],
    "rows behind the signature": [[...lines, lines[keys]!], broken],
    "a second signature": [lines.toSpliced(1, 0, lines.at(-1)!), broken],
    "another backup's signature": [lines.with(-1, later), broken],
    "a signature of nothing": [changed(lines, -1, { signature: { ed25519: "", ml_dsa_65: "" } }), broken],
    "a statement of another kind": [
      changed(lines, -1, { statement: { ...signature.statement, type: "key_attestation" } }),
      broken,
    ],
    "a member that is not signed": [changed(lines, -1, { note: "trust me" }), broken],
    "a stranger's signature": [
      await ownSigned({ signed_by: stranger }),
      new RegExp(`is signed by the service key ${stranger}, not by ${serviceKey}`),
    ],
    "a stranger's signature under the vault's id": [await ownSigned({}), broken],
    "a stranger's signature under the vault's key": [await ownSigned({}, signature.public_key), broken],
    "an earlier format": [changed(lines.slice(0, -1), 0, { version: 1 }), /is not signed/],
    "a later format": [changed(lines, 0, { version: 3 }), /is of format 3/],
  };
  const home = await emptyMachine();
  for (const [what, [forged, expected]] of Object.entries(forgeries)) {
    const forgery = await sealed(forged);
    await expect(restoreFrom(home, forgery), what).rejects.toMatchObject({
      name: "UserError",
      message: expect.stringMatching(expected),
    });
    await expectNothing(home);
  }
  for (const half of ["ed25519", "ml_dsa_65"] as const) {
    const mixed = (await ownSigned({}, signature.public_key)).at(-1)!.signature as SignatureLine["signature"];
    const forgery = await sealed(
      changed(lines, -1, { signature: { ...signature.signature, [half]: mixed[half] } }),
    );
    await expect(restoreFrom(home, forgery), half).rejects.toThrow(broken);
  }
  await restoreFrom(home, bytes);
});

test("a restore leaves nothing behind if the file changes between its two reads", async () => {
  const lines = await linesOf(bytes);
  const keys = lines.findIndex(({ kind, table }) => kind === "rows" && table === "keys");
  const rows = (lines[keys]!.rows as object[]).map((row) => ({ ...row, label: "another" }));
  const another = await sealed(changed(lines, keys, { rows }));
  const home = await emptyMachine();
  const restoring = restoreFrom(home, bytes, { serviceKey }, another);
  await expect(restoring).rejects.toThrow(/was altered while it was read/);
  await expectNothing(home);
});

test("a restore accepts an unsigned backup only with --unsigned", async () => {
  const lines = await linesOf(bytes);
  const unsigned = join(vault.home.dir, "unsigned");
  await writeFile(unsigned, await sealed(changed(lines.slice(0, -1), 0, { version: 1 })));
  const home = await emptyMachine();
  const restore = (...options: string[]) =>
    cli(home, "backup", "restore", unsigned, "--recovery-key", recoveryKeyFile, ...options);
  for (const options of [[], ["--service-key", serviceKey]]) {
    await expect(restore(...options)).rejects.toMatchObject({
      stderr: expect.stringMatching(/^keyvault: The backup is not signed: [^\n]*pass --unsigned[^\n]*\n$/),
    });
    await expectNothing(home);
  }
  expect((await restore("--unsigned")).stdout).toMatch(/signed by +nobody/);
});

test("a restore rejects an unsigned backup that lacks rows of a table", async () => {
  const lines = changed((await linesOf(bytes)).slice(0, -1), 0, { version: 1 });
  const home = await emptyMachine();
  for (const table of ["keys", "audit"]) {
    const fewer = await sealed(lines.filter((line) => line.table !== table));
    const lacking = restoreFrom(home, fewer, "unsigned");
    await expect(lacking).rejects.toThrow(`The backup lacks rows of ${table}`);
    await expectNothing(home);
  }
});

test("a restore does not accept a pipe, because it reads the backup twice", async () => {
  const home = await emptyMachine();
  const pipe = join(home.dir, "pipe");
  await promisify(execFile)("mkfifo", [pipe]);
  const restoring = cli(home, "backup", "restore", pipe, "--recovery-key", recoveryKeyFile);
  await Promise.all([
    expect(restoring).rejects.toMatchObject({ stderr: expect.stringMatching(/read twice/) }),
    writeFile(pipe, bytes).catch(() => {}),
  ]);
  await expectNothing(home);
});

test("a backup's signature is recorded with digest, key and caller before the signature leaves the vault", async () => {
  const { statement, public_key, signature } = (await linesOf(bytes)).at(-1) as unknown as SignatureLine;
  const signed = backupSignBytes(statement);
  expect(await verifyHybrid(public_key, signed, signature)).toBe(true);
  const records = await vault.home.sql<{ detail: object; digest: Buffer | null }>(
    "select key_id, purpose, caller, outcome, digest, detail from audit where statement = 'backup' order by seq limit 2",
  );
  expect(records).toEqual([
    expect.objectContaining({ outcome: "granted", key_id: null, digest: null }),
    {
      key_id: serviceKey,
      purpose: "service",
      caller: "admin",
      outcome: "granted",
      digest: hash("sha256", signed, "buffer"),
      detail: { step: "signed" },
    },
  ]);
});

test("a backup is aborted without a signature if the service key is altered meanwhile", async () => {
  const rows = await vault.home.sql<{ wrapped_seeds: Buffer }>(
    "select wrapped_seeds from keys where key_id = $1",
    [serviceKey],
  );
  const store = (seeds: Buffer) =>
    vault.home.sql("update keys set wrapped_seeds = $2 where key_id = $1", [serviceKey, seeds]);
  await store(Buffer.alloc(rows[0]!.wrapped_seeds.length, 7));
  const odd = join(vault.home.dir, "odd");
  try {
    await expect(take(odd)).rejects.toThrow(/keyvault: /);
    expect(existsSync(odd)).toBe(false);
  } finally {
    await store(rows[0]!.wrapped_seeds);
  }
  await take(odd);
});

test("a backup is signed even while an earlier version's rows wait for adoption", async () => {
  const home = await machineOfLevel(vault, await earlierRows(vault, WITHOUT_CODES), WITHOUT_CODES);
  homes.push(home);
  await migrate(home.config, SILENT);
  await writeFile(home.config.recoveryKeyFile, publicRecoveryKey);
  const waiting = await startVault(home, vault.clock.at);
  const backup = join(home.dir, "backup");
  try {
    await expect(waiting.vault.store.find(serviceKey)).rejects.toMatchObject({ code: "key_damaged" });
    await cli(home, "backup", "create", backup, "--url", waiting.url);
  } finally {
    await waiting.stop();
  }
  const written = await readFile(backup);
  await restoreFrom(await emptyMachine(), written);
});
