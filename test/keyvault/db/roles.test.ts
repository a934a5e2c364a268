import pg from "pg";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { type Config, loadConfig } from "../../../keyvault/config.ts";
import type { Database } from "../../../keyvault/db/connection.ts";
import { migrate } from "../../../keyvault/db/migrate.ts";
import { findRunningRole } from "../../../keyvault/db/privileges.ts";
import { requireTables } from "../../../keyvault/db/tables.ts";
import { warnOfExposure } from "../../../keyvault/hardening.ts";
import { createLog } from "../../../keyvault/log.ts";
import { migrateToLevel } from "../backup/earlier_support.ts";
import { ADMIN, createHome, SILENT, startVault, type TestVault, type VaultHome } from "../fixture.ts";

const DENIED = "42501";

let vault: TestVault;
let empty: VaultHome;

beforeAll(async () => {
  [vault, empty] = await Promise.all([startVault(), createHome({ made: "empty" })]);
});
afterAll(() => Promise.all([vault.close(), empty.remove()]));

/** Tries a statement as the role that runs, on the vault's own connections. */
const tried = (sql: string): Promise<string | undefined> =>
  vault.vault.database.raw(sql).then(
    () => undefined,
    (error: { code: string }) => error.code,
  );

/** The events that a start warns of. */
async function warnings(config: Config): Promise<unknown[]> {
  const told: unknown[] = [];
  const log = Object.assign(createLog("silent"), {
    warn: (line: { event: string }) => told.push(line.event),
  });
  await requireTables(config.databaseUrl, log);
  return told;
}

test.each([
  "UPDATE audit SET caller = 'nobody'",
  "DELETE FROM audit",
  "TRUNCATE audit",
  "ALTER TABLE audit DISABLE TRIGGER audit_append_only",
  "DROP TRIGGER audit_append_only ON audit",
  "CREATE TRIGGER mine BEFORE INSERT ON audit EXECUTE FUNCTION audit_is_append_only()",
  "CREATE OR REPLACE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
  "CREATE RULE mine AS ON INSERT TO audit DO INSTEAD NOTHING",
  "DO $$ BEGIN LOCK TABLE audit IN ACCESS EXCLUSIVE MODE; END $$",
  "SET SESSION AUTHORIZATION postgres",
  "DELETE FROM keys",
  "DELETE FROM tenants",
  "DELETE FROM audit_register",
  "DELETE FROM schema_migrations",
  "INSERT INTO schema_migrations (name) VALUES ('9999_later')",
  "CREATE TABLE mine ()",
])("the running vault's role may not: %s", async (sql) => {
  expect(await tried(sql)).toBe(DENIED);
});

test("the running vault's role is not the owner's, nor can it become that", async () => {
  const owner = new URL(vault.home.config.migrationDatabaseUrl).username;
  expect(await tried(`SET ROLE ${owner}`)).toBe(DENIED);
});

test("with its rights and no more the vault does all its work", async () => {
  await migrate(vault.home.config, SILENT);
  const key = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "works", ceiling: [] });
  await vault.vault.journal.record({ caller: ADMIN, statement: "call", outcome: "granted", detail: {} });
  expect(await vault.verifyAudit()).toMatchObject({ intact: true });
  expect(await vault.vault.store.find(key.key_id)).toMatchObject({ state: "active" });
});

test("rights that somebody gave besides are taken away by the next migration", async () => {
  const { username } = new URL(vault.home.config.databaseUrl);
  await vault.home.sql(`GRANT UPDATE ON audit TO ${username}; GRANT DELETE ON audit TO PUBLIC`);
  expect(await warnings(vault.home.config)).toEqual(["audit_rewritable"]);
  await migrate(vault.home.config, SILENT);
  expect(await warnings(vault.home.config)).toEqual([]);
  expect(await tried("UPDATE audit SET caller = 'nobody'")).toBe(DENIED);
  expect(await tried("DELETE FROM audit")).toBe(DENIED);
});

test.each(["UPDATE", "DELETE", "TRUNCATE", "TRIGGER"])(
  "a role that was given %s on the audit is warned of at each start",
  async (right) => {
    const { username } = new URL(vault.home.config.databaseUrl);
    await vault.home.sql(`GRANT ${right} ON audit TO ${username}`);
    expect(await warnings(vault.home.config)).toEqual(["audit_rewritable"]);
    await vault.home.sql(`REVOKE ${right} ON audit FROM ${username}`);
    expect(await warnings(vault.home.config)).toEqual([]);
  },
);

test("a vault that runs as the owner, or as one of its members, is warned of at each start", async () => {
  const { databaseUrl, migrationDatabaseUrl } = vault.home.config;
  expect(await warnings({ ...vault.home.config, databaseUrl: migrationDatabaseUrl })).toEqual([
    "audit_rewritable",
  ]);
  const [owner, running] = [migrationDatabaseUrl, databaseUrl].map((url) => new URL(url).username);
  const member = `member_of_${owner}`;
  const superuser = new pg.Client({ connectionString: inject("postgresUrl") });
  await superuser.connect();
  try {
    await superuser.query(`CREATE ROLE ${member} LOGIN PASSWORD 'of a test' IN ROLE ${owner}, ${running}`);
    const url = Object.assign(new URL(databaseUrl), { username: member, password: "of a test" });
    expect(await warnings({ ...vault.home.config, databaseUrl: url.href })).toEqual(["audit_rewritable"]);
  } finally {
    await superuser.query(`DROP ROLE IF EXISTS ${member}`);
    await superuser.end();
  }
});

test("a role that does not own the tables starts on those of its version only, and says what to run", async () => {
  const start = () => requireTables(empty.config.databaseUrl, SILENT);
  await expect(start()).rejects.toThrow('The database has no vault\'s tables: run "keyvault init"');
  await migrateToLevel(empty, 7);
  await expect(start()).rejects.toThrow(/was not given its rights: run "keyvault migrate"/);
  await empty.sql(`GRANT SELECT ON schema_migrations TO ${new URL(empty.config.databaseUrl).username}`);
  await expect(start()).rejects.toThrow(/lacks 0008_audit_register, .*: run "keyvault migrate"/);
  await migrate(empty.config, SILENT);
  await expect(start()).resolves.toBeUndefined();
  await empty.sql("INSERT INTO schema_migrations (name) VALUES ('9999_later')");
  await expect(start()).rejects.toThrow(/tables of a newer version: 9999_later/);
});

test("two URLs of different databases are refused before anything is given", async () => {
  const { databaseUrl } = vault.home.config;
  const { migrationDatabaseUrl } = empty.config;
  await expect(migrate({ databaseUrl, migrationDatabaseUrl }, SILENT)).rejects.toThrow(
    /lead to different databases/,
  );
});

test("databases of one name on two servers are two databases", async () => {
  const on = (server: string) =>
    ({
      raw: async () => ({ rows: [{ role: "one", database: "keyvault", server }] }),
    }) as unknown as Database;
  expect(await findRunningRole(on("a"), on("a"))).toBeUndefined();
  await expect(findRunningRole(on("a"), on("b"))).rejects.toThrow(/lead to different databases/);
});

test("an owner that cannot be reached is told by its own setting", async () => {
  const unreachable = "postgres://keyvault_owner:secret@127.0.0.1:1/none";
  const urls = { databaseUrl: vault.home.config.databaseUrl, migrationDatabaseUrl: unreachable };
  await expect(migrate(urls, SILENT)).rejects.toMatchObject({ setting: "KEYVAULT_MIGRATION_DATABASE_URL" });
  const turned = { databaseUrl: unreachable, migrationDatabaseUrl: vault.home.config.migrationDatabaseUrl };
  await expect(migrate(turned, SILENT)).rejects.toMatchObject({ setting: "KEYVAULT_DATABASE_URL" });
});

test("the owner's URL in the running vault's environment is warned of at its start", () => {
  const told: unknown[] = [];
  const log = Object.assign(createLog("silent"), {
    warn: (line: { event: string }) => told.push(line.event),
  });
  warnOfExposure(vault.home.config, log);
  expect(told).toContain("owner_url_present");
  const { databaseUrl } = vault.home.config;
  warnOfExposure({ ...vault.home.config, migrationDatabaseUrl: databaseUrl }, log);
  expect(told.filter((event) => event === "owner_url_present")).toHaveLength(1);
});

test("one URL is both, as it was before there were two", () => {
  const { KEYVAULT_MIGRATION_DATABASE_URL: _, ...environment } = vault.home.environment;
  const { databaseUrl, migrationDatabaseUrl } = loadConfig(environment);
  expect(migrationDatabaseUrl).toBe(databaseUrl);
});
