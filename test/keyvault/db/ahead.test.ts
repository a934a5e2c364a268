import { writeFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createBackups } from "../../../keyvault/backup/create.ts";
import { createRecoveryKey } from "../../../keyvault/backup/encrypted_stream.ts";
import { openLines, parseLine } from "../../../keyvault/backup/format.ts";
import { migrate, migrationNames } from "../../../keyvault/db/migrate.ts";
import { requireTables } from "../../../keyvault/db/tables.ts";
import { isRefusal } from "../../../keyvault/errors.ts";
import { initialize } from "../../../keyvault/init.ts";
import { createLog } from "../../../keyvault/log.ts";
import { createMetrics } from "../../../keyvault/metrics.ts";
import { ADMIN, createHome, SILENT, startVault, type VaultHome } from "../fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const TWO_AHEAD =
  "The database is 2 migrations ahead of this version, which works with one at most: run the version that made 0902_latest";
const LATER = [...migrationNames(), "0901_later"];

let home: VaultHome;

/** Applies a migration of the next version. It adds columns and tables, and keeps the existing ones. */
beforeAll(async () => {
  home = await createHome();
  const { username } = new URL(home.config.databaseUrl);
  await home.sql(`alter table keys add column note text not null default 'of the next version';
    create table notes (key_id text); grant select, insert on notes to ${username};
    grant delete on keys to ${username};
    insert into schema_migrations (name) values ('0901_later')`);
});
afterAll(() => home.remove());

test("a vault whose database is one migration ahead starts with a warning, works, and names the migration in backups", async () => {
  const told: unknown[] = [];
  const log = Object.assign(createLog("silent"), { warn: (line: object) => told.push(line) });
  await requireTables(home.config.databaseUrl, log);
  expect(told).toMatchObject([{ event: "schema_ahead", migration: "0901_later" }]);
  const { publicKey, privateKey } = createRecoveryKey();
  await writeFile(home.config.recoveryKeyFile, publicKey);
  const running = await startVault(home);
  try {
    const { key_id } = await running.makeAgent("acc-1");
    expect((await running.post(`/v1/keys/${key_id}/disable`, { tenant: "acc-1" })).status).toBe(200);
    expect(await running.verifyAudit()).toMatchObject({ intact: true });
    const parts = { ...running.parts(), config: home.config, metrics: createMetrics() };
    const backup = await createBackups(parts)(ADMIN);
    if (isRefusal(backup)) throw new Error(backup.message);
    const lines = openLines(backup, privateKey);
    expect(parseLine((await lines.next()).value as Buffer)).toMatchObject({ migrations: LATER });
    for await (const _ of lines);
  } finally {
    await running.stop();
  }
});

test("init and migrate change neither a database that is one migration ahead nor the rights in it", async () => {
  expect(await migrate(home.config, SILENT)).toEqual([]);
  await initialize(home.config, { now: () => new Date() }, SILENT);
  const { username } = new URL(home.config.databaseUrl);
  const [rights] = await home.sql(
    "select has_table_privilege($1, 'keys', 'delete') as deletes, has_table_privilege($1, 'notes', 'insert') as notes",
    [username],
  );
  expect(rights).toEqual({ deletes: true, notes: true });
  const names = await home.sql("select name from schema_migrations order by id");
  expect(names.map(({ name }) => name)).toEqual(LATER);
});

test("every command rejects a database that is two migrations ahead, with one sentence", async () => {
  await home.sql("insert into schema_migrations (name) values ('0902_latest')");
  const { databaseUrl, migrationDatabaseUrl } = home.config;
  await expect(startVault(home)).rejects.toThrow(TWO_AHEAD);
  await expect(requireTables(migrationDatabaseUrl, SILENT)).rejects.toThrow(TWO_AHEAD);
  await expect(migrate({ databaseUrl, migrationDatabaseUrl }, SILENT)).rejects.toThrow(TWO_AHEAD);
  await expect(initialize(home.config, { now: () => new Date() }, SILENT)).rejects.toThrow(TWO_AHEAD);
  await home.sql("delete from schema_migrations where name = '0902_latest'");
});

test("requireTables and migrate reject a database that has an unknown migration and lacks a known one", async () => {
  await home.sql("delete from schema_migrations where name = $1", [migrationNames().at(-1)]);
  const refused = /has 0901_later and lacks 0010_active_keys/;
  await expect(requireTables(home.config.databaseUrl, SILENT)).rejects.toThrow(refused);
  await expect(migrate(home.config, SILENT)).rejects.toThrow(refused);
});
