import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { restoreBackup } from "../../../keyvault/backup/restore.ts";
import { migrate, migrationNames } from "../../../keyvault/db/migrate.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { cli } from "../command_line.ts";
import {
  issueAdmins,
  SILENT,
  startVault,
  type TestVault,
  unfinishedTokens,
  type VaultHome,
} from "../fixture.ts";
import { expectNothing, expectSigns } from "./backup_support.ts";
import {
  contentsOf,
  earlierRows,
  machineFor,
  machineOfLevel,
  migrateToLevel,
  migrationsTo,
  writeEarlierBackup,
} from "./earlier_support.ts";

vi.setConfig({ testTimeout: 180_000 });

const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));
const OLDEST = 2;
const NEWEST = migrationNames().length;

let vault: TestVault;
let agent: CreatedKey;
const homes: VaultHome[] = [];

beforeAll(async () => {
  vault = await startVault();
  agent = await vault.makeAgent("acc-1");
}, 120_000);
afterAll(async () => {
  await vault.close();
  for (const home of homes) await home.remove();
});

const restore = (home: VaultHome, { file, key }: { file: string; key: string }) =>
  cli(home, "backup", "restore", file, "--recovery-key", key, "--unsigned");

async function emptyMachine(): Promise<VaultHome> {
  const home = await machineFor(vault);
  homes.push(home);
  return home;
}

async function adoptByTwo({ home, post }: TestVault): Promise<void> {
  for (const admin of await issueAdmins(home, "alice", "bob")) {
    expect((await post("/v1/states/adopt", {}, admin)).status).toBe(200);
  }
}

/**
 * Returns a vault's records without codes and times. Two vaults with the same history have the same records.
 */
const recordsOf = (home: VaultHome) =>
  home.sql("select seq, statement, outcome, detail - 'certificate' as detail from audit order by seq");

test.each([OLDEST, 3, 5, NEWEST - 1])(
  "restoring a backup with the tables of migration %i gives the same vault as an upgrade in place, and this vault signs",
  async (level) => {
    const rows = await earlierRows(vault, level);
    const home = await emptyMachine();
    const { stdout } = await restore(home, await writeEarlierBackup(vault, rows, migrationsTo(level)));
    expect(stdout).toMatch(/Restored the vault of .*: 2 keys of 2 tenants, \d+ audit records/);
    for (const name of migrationNames()) {
      expect(stdout.includes(`Brought up to date: ${name}\n`)).toBe(!migrationsTo(level).includes(name));
    }

    const inPlace = await machineOfLevel(vault, rows, level);
    homes.push(inPlace);
    await migrate(inPlace.config, SILENT);
    expect(await contentsOf(home)).toEqual(await contentsOf(inPlace));
    const noted = `${rows.head.seq}:${rows.head.mac}`;
    expect((await cli(home, "audit", "verify", "--head", noted)).stdout).toMatch(/records are intact/);

    const restored = await startVault(home, vault.clock.at);
    try {
      if (level === OLDEST) await adoptByTwo(restored);
      await expectSigns(restored, agent);
    } finally {
      await restored.stop();
    }
    expect((await cli(home, "audit", "verify", "--head", noted)).stdout).toMatch(/records are intact/);
    const upgraded = await startVault(inPlace, vault.clock.at);
    if (level === OLDEST) await adoptByTwo(upgraded);
    await upgraded.stop();
    const records = await recordsOf(home);
    expect(records.filter(({ statement }) => statement !== "challenge")).toEqual(await recordsOf(inPlace));
    if (level === OLDEST) {
      expect(records.filter(({ statement }) => statement === "state_adopt")).toMatchObject([
        { detail: { step: "asked", keys: "2", tenants: "2" } },
        { detail: { step: "done", rows: "4" } },
      ]);
    }
  },
);

test("a restore accepts a database with empty tables of any known version", async () => {
  const rows = await earlierRows(vault, 3);
  const backup = await writeEarlierBackup(vault, rows, migrationsTo(3));
  const [fresh, older, newest] = await Promise.all([emptyMachine(), emptyMachine(), emptyMachine()]);
  await migrateToLevel(older, OLDEST);
  await migrateToLevel(newest, NEWEST);
  const contents: object[] = [];
  for (const home of [fresh, older, newest]) {
    await restore(home, backup);
    contents.push(await contentsOf(home));
  }
  expect(contents[1]).toEqual(contents[0]);
  expect(contents[2]).toEqual(contents[0]);
});

test("a restore fails while another session uses the tables, and a running restore locks the tables", async () => {
  const backup = await writeEarlierBackup(vault, await earlierRows(vault, NEWEST), migrationsTo(NEWEST));
  const home = await emptyMachine();
  await migrateToLevel(home, NEWEST);
  const user = new pg.Client({ connectionString: home.config.migrationDatabaseUrl });
  await user.connect();
  await user.query("begin; lock table keys in access share mode");
  await expect(restore(home, backup)).rejects.toThrow(/\(55P03\)/);
  await user.end();
  const kept: string[][] = [];
  async function* read(): AsyncGenerator<Buffer> {
    const locks = await home.sql<{ name: string }>(
      `select relname as name from pg_locks join pg_class on pg_class.oid = relation join pg_database on pg_database.oid = database
       where mode = 'AccessExclusiveLock' and granted and datname = current_database() and relkind = 'r' order by 1`,
    );
    kept.push(locks.map(({ name }) => name));
    yield await readFile(backup.file);
  }
  const recoveryKey = await readFile(backup.key, "utf8");
  await restoreBackup(home.config, read, { recoveryKey, origin: "unsigned" }, SILENT);
  expect(kept).toEqual([[], ["audit", "keys", "listed_certificates", "tenants"]]);
});

test("a restore rejects a backup of a version that kept a key in the token, and leaves nothing behind", async () => {
  const home = await emptyMachine();
  const rows = await earlierRows(vault, NEWEST);
  const residents = [{ label: `key-${"0".repeat(32)}`, key_id: null, created_at: "2026-01-02T03:04:05Z" }];
  const tables = { ...rows.tables, residents };
  const backup = await writeEarlierBackup(vault, { ...rows, tables }, migrationsTo(NEWEST));
  await expect(restore(home, backup)).rejects.toMatchObject({
    code: 1,
    stderr:
      "keyvault: The backup has keys that live in the token, which this version does not support: restore it with the version that made it\n",
  });
  await expectNothing(home);
});

test("a restore of an older backup does not replace or change an existing vault", async () => {
  const rows = await earlierRows(vault, NEWEST);
  const there = await machineOfLevel(vault, rows, NEWEST);
  homes.push(there);
  const before = await contentsOf(there);
  there.environment.KEYVAULT_DATA_DIR = (await emptyMachine()).environment.KEYVAULT_DATA_DIR ?? "";
  const backup = await writeEarlierBackup(vault, await earlierRows(vault, 3), migrationsTo(3));
  await expect(restore(there, backup)).rejects.toThrow(/holds a vault already/);
  expect(await contentsOf(there)).toEqual(before);
});

test("a restore rejects a newer version's backup with one line that names the missing migration", async () => {
  const home = await emptyMachine();
  const rows = await earlierRows(vault, NEWEST);
  for (const migrations of [
    [...migrationNames(), "0900_later", "0901_latest"],
    [...migrationNames().slice(0, -1), "0901_latest"],
  ]) {
    const failed = await restore(home, await writeEarlierBackup(vault, rows, migrations)).then(
      () => undefined,
      (error: { code: number; stderr: string }) => error,
    );
    expect(failed).toMatchObject({ code: 1 });
    expect(failed?.stderr).toBe(
      `keyvault: The backup has the tables of a newer version: restore it with a version that has 0901_latest, this one ends with ${migrationNames().at(-1)}\n`,
    );
  }
  await expectNothing(home);
});

test("a restore of an older backup leaves nothing behind if the backup is cut off or its rows cannot be upgraded", async () => {
  const home = await emptyMachine();
  const rows = await earlierRows(vault, OLDEST);
  const whole = await writeEarlierBackup(vault, rows, migrationsTo(OLDEST));
  const bytes = await readFile(whole.file);
  await writeFile(`${whole.file}.cut`, bytes.subarray(0, -1));
  await expect(restore(home, { ...whole, file: `${whole.file}.cut` })).rejects.toThrow(/cut off/);
  await expectNothing(home);

  const last = rows.tables.audit?.at(-1);
  const long = { key_id: "k", outcome: "granted", detail: { stream: randomBytes(9_000).toString("hex") } };
  const tables = { ...rows.tables, audit: [...(rows.tables.audit ?? []), { ...last, seq: 9_000, ...long }] };
  const odd = await writeEarlierBackup(vault, { ...rows, tables }, migrationsTo(OLDEST));
  await expect(restore(home, odd)).rejects.toThrow(/index row/);
  await expectNothing(home);
  await restore(home, whole);
});

test("a restore killed during the upgrade leaves nothing behind and can be repeated", async () => {
  const home = await emptyMachine();
  const rows = await earlierRows(vault, OLDEST);
  const { file, key } = await writeEarlierBackup(vault, rows, migrationsTo(OLDEST));
  const obstacle = new pg.Client({ connectionString: home.config.migrationDatabaseUrl });
  await obstacle.connect();
  await obstacle.query("begin; create table residents ()");
  const args = [MAIN, "backup", "restore", file, "--recovery-key", key, "--unsigned"];
  const restoring = spawn(process.execPath, args, { env: home.environment, stdio: "ignore" });
  const ended = once(restoring, "exit");
  const obstaclePid = (await obstacle.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]?.pid;
  const others = () =>
    home.sql<{ waiting: boolean }>(
      `select wait_event_type = 'Lock' and query like '%CREATE TABLE residents%' as waiting from pg_stat_activity
       where datname = current_database() and pid not in (pg_backend_pid(), $1)`,
      [obstaclePid],
    );
  await expect
    .poll(async () => (await others()).some(({ waiting }) => waiting), { timeout: 60_000 })
    .toBe(true);
  expect(await unfinishedTokens(home)).toHaveLength(1);
  restoring.kill("SIGKILL");
  expect(await ended).toEqual([null, "SIGKILL"]);
  await obstacle.query("rollback");
  await obstacle.end();
  await expect.poll(async () => (await others()).length, { timeout: 60_000 }).toBe(0);
  expect(await home.sql("select from pg_class where relnamespace = 'public'::regnamespace")).toEqual([]);
  expect(existsSync(home.config.token.dir)).toBe(false);
  expect((await restore(home, { file, key })).stdout).toMatch(/Restored the vault/);
  expect(await unfinishedTokens(home)).toEqual([]);
  expect((await cli(home, "audit", "verify")).stdout).toMatch(/records are intact/);
});

test("a restore rejects a backup without a manifest, with two manifests, or with a manifest after the first line", async () => {
  const home = await emptyMachine();
  const rows = await earlierRows(vault, OLDEST);
  for (const order of [
    (lines: string[]) => lines.slice(1),
    (lines: string[]) => [...lines.slice(1), ...lines.slice(0, 1)],
    (lines: string[]) => [...lines.slice(0, 1), ...lines],
  ]) {
    await expect(
      restore(home, await writeEarlierBackup(vault, rows, migrationsTo(OLDEST), order)),
    ).rejects.toMatchObject({
      code: 1,
      stderr: "keyvault: The backup is incomplete or out of order: use another copy of the backup\n",
    });
  }
  await expectNothing(home);
});
