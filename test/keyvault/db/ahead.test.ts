import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { openLines, parseLine } from "../../../keyvault/backup/format.ts";
import { migrate, migrationNames } from "../../../keyvault/db/migrate.ts";
import { requireTables } from "../../../keyvault/db/tables.ts";
import { initialise } from "../../../keyvault/init.ts";
import { createLog } from "../../../keyvault/log.ts";
import { createHome, readIdentity, SILENT, startVault, type TestVault, type VaultHome } from "../fixture.ts";
import { call } from "../http/caller_support.ts";

vi.setConfig({ testTimeout: 60_000 });

const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));
const TWO_AHEAD =
  "The database is 2 migrations ahead of this version, which works with one at most: run the version that made 0902_latest";

let vault: TestVault;
const homes: VaultHome[] = [];

beforeAll(async () => {
  vault = await startVault();
});
afterAll(async () => {
  await vault.close();
  for (const home of homes) await home.remove();
});

const cli = (home: VaultHome, ...args: string[]) =>
  promisify(execFile)(process.execPath, [MAIN, ...args], { env: home.environment });

async function homeAhead(migrations: readonly string[]): Promise<VaultHome> {
  const home = await createHome();
  homes.push(home);
  await goAhead(home, migrations);
  return home;
}

/** What a next version's migration may do: it adds, and what was there stays as it was. */
async function goAhead(home: VaultHome, migrations: readonly string[]): Promise<void> {
  const { username } = new URL(home.config.databaseUrl);
  await home.sql(`alter table keys add column note text not null default 'of the next version';
    create table notes (key_id text); grant select, insert on notes to ${username};
    grant delete on keys to ${username}`);
  for (const name of migrations) await home.sql("insert into schema_migrations (name) values ($1)", [name]);
}

test("a vault whose database is one migration ahead starts, with a warning, and does all its work", async () => {
  const home = await homeAhead(["0901_later"]);
  const told: unknown[] = [];
  const log = Object.assign(createLog("silent"), { warn: (line: object) => told.push(line) });
  await requireTables(home.config.databaseUrl, log);
  expect(told).toMatchObject([{ event: "schema_ahead", migration: "0901_later" }]);
  const running = await startVault(home);
  try {
    const key = await running.makeKey({ tenant: "acc-1", purpose: "agent", label: "made", ceiling: [] });
    const path = `${running.url}/v1/keys/${key.key_id}/disable`;
    const body = { tenant: "acc-1" };
    const answer = await call(path, readIdentity(home, "api"), { method: "POST", body });
    expect(answer.status).toBe(200);
    expect(await running.verifyAudit()).toMatchObject({ intact: true });
  } finally {
    await running.stop();
  }
});

test("init and migrate leave it as it is, with the rights that the next version gave", async () => {
  const home = await homeAhead(["0901_later"]);
  expect(await migrate(home.config, SILENT)).toEqual([]);
  await initialise(home.config, { now: () => new Date() }, SILENT);
  const { username } = new URL(home.config.databaseUrl);
  const [rights] = await home.sql(
    "select has_table_privilege($1, 'keys', 'delete') as deletes, has_table_privilege($1, 'notes', 'insert') as notes",
    [username],
  );
  expect(rights).toEqual({ deletes: true, notes: true });
  const names = await home.sql("select name from schema_migrations order by id");
  expect(names.map(({ name }) => name)).toEqual([...migrationNames(), "0901_later"]);
});

test("a database that is two migrations ahead is refused in one sentence, whoever asks", async () => {
  const home = await homeAhead(["0901_later", "0902_latest"]);
  const { databaseUrl, migrationDatabaseUrl } = home.config;
  await expect(startVault(home)).rejects.toThrow(TWO_AHEAD);
  await expect(requireTables(migrationDatabaseUrl, SILENT)).rejects.toThrow(TWO_AHEAD);
  await expect(migrate({ databaseUrl, migrationDatabaseUrl }, SILENT)).rejects.toThrow(TWO_AHEAD);
  await expect(initialise(home.config, { now: () => new Date() }, SILENT)).rejects.toThrow(TWO_AHEAD);
  await expect(cli(home, "serve")).rejects.toMatchObject({ code: 1, stderr: `keyvault: ${TWO_AHEAD}\n` });
});

test("a database that has an unknown migration and lacks a known one is of no version, and refused", async () => {
  const home = await homeAhead(["0901_later"]);
  await home.sql("delete from schema_migrations where name = $1", [migrationNames().at(-1)]);
  const refused = /has 0901_later and lacks 0009_listed_certificates/;
  await expect(requireTables(home.config.databaseUrl, SILENT)).rejects.toThrow(refused);
  await expect(migrate(home.config, SILENT)).rejects.toThrow(refused);
});

test("a backup made one migration ahead names the tables that its rows fit", async () => {
  const home = await homeAhead(["0901_later"]);
  const key = join(home.dir, "recovery.key");
  await cli(home, "backup", "key", key);
  const running = await startVault(home);
  const file = join(home.dir, "backup");
  await cli(home, "backup", "create", file, "--url", running.url);
  await running.stop();
  const bytes = async function* () {
    yield await readFile(file);
  };
  const first = await openLines(bytes(), await readFile(key, "utf8")).next();
  expect(parseLine(first.value as Buffer)).toMatchObject({
    migrations: [...migrationNames(), "0901_later"],
  });
});
