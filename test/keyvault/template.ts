import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { loadConfig } from "../../keyvault/config.ts";
import { openDatabase } from "../../keyvault/db/database.ts";
import { grantPrivileges } from "../../keyvault/db/migrate.ts";
import { initialize } from "../../keyvault/init.ts";
import { createLog } from "../../keyvault/log.ts";
import { type TestDatabase, testDatabase } from "../support/postgres.ts";
import { runPart } from "../support/run_parts.ts";

const NAME = "template_vault";
const LOCK = 7_233_002;

/** Recommended roles of a vault's database: one owns the tables, another one runs the vault. */
export const OWNER_AND_RUNNING = { role: "keyvault_owner", guest: "keyvault" } as const;

/**
 * Copies the vault that `keyvault init` created once for the whole run. Copies its data folder to `dataDir`,
 * which must not exist, and its database to a new database with a new owner role.
 */
export async function copyVault(dataDir: string): Promise<TestDatabase> {
  const template = join(runPart("runFolder"), NAME);
  await withSuperuser("postgres", async (client) => {
    await client.query("select pg_advisory_lock($1)", [LOCK]);
    const { rowCount } = await client.query("select from pg_database where datname = $1", [NAME]);
    if (rowCount === 0) await makeTemplate(client, template);
  });
  const database = await testDatabase({ ...OWNER_AND_RUNNING, template: NAME });
  const { pathname, username } = new URL(database.url);
  await withSuperuser(pathname.slice(1), (client) =>
    client.query(`REASSIGN OWNED BY ${pg.escapeIdentifier(NAME)} TO ${pg.escapeIdentifier(username)}`),
  );
  const owner = openDatabase(database.url, createLog("silent"), 1);
  await grantPrivileges(owner, new URL(database.guestUrl).username);
  await owner.destroy();
  await cp(template, dataDir, { recursive: true });
  return database;
}

/**
 * The superuser owns the database, and a separate role owns its content. A copy's content can therefore be
 * given to another role without changing the template.
 */
async function makeTemplate(client: pg.Client, dataDir: string): Promise<void> {
  await rm(dataDir, { recursive: true, force: true });
  const { url } = await testDatabase({ role: NAME });
  const environment = { KEYVAULT_DATA_DIR: dataDir, KEYVAULT_DATABASE_URL: url };
  await initialize(loadConfig(environment), { now: () => new Date() }, createLog("silent"));
  const { pathname, username } = new URL(url);
  const database = pg.escapeIdentifier(pathname.slice(1));
  await client.query(`alter role ${pg.escapeIdentifier(username)} rename to ${NAME}`);
  await client.query(`alter database ${database} owner to current_user`);
  await client.query(`alter database ${database} rename to ${NAME}`);
}

async function withSuperuser(database: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const url = new URL(runPart("postgresUrl"));
  url.pathname = `/${database}`;
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
