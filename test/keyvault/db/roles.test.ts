import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Config } from "../../../keyvault/config.ts";
import type { Database } from "../../../keyvault/db/database.ts";
import { findRunningRole, migrate } from "../../../keyvault/db/migrate.ts";
import { requireTables } from "../../../keyvault/db/tables.ts";
import { warnOfExposure } from "../../../keyvault/hardening.ts";
import { createLog } from "../../../keyvault/log.ts";
import { runPart } from "../../support/run_parts.ts";
import { migrateToLevel } from "../backup/earlier_support.ts";
import { ADMIN, createHome, SILENT, startVault, type TestVault, type VaultHome } from "../fixture.ts";

const DENIED = "42501";

let vault: TestVault;
let empty: VaultHome;

beforeAll(async () => {
  [vault, empty] = await Promise.all([startVault(), createHome({ made: "empty" })]);
});
afterAll(() => Promise.all([vault.close(), empty.remove()]));

/** Runs a statement with the role that runs the vault. Returns the error code. */
const tried = (sql: string): Promise<string | undefined> =>
  vault.vault.database.raw(sql).then(
    () => undefined,
    (error: { code: string }) => error.code,
  );

/** Returns a log and the events of its warnings. */
function warned() {
  const told: unknown[] = [];
  const warn = (line: { event: string }) => told.push(line.event);
  return { told, log: Object.assign(createLog("silent"), { warn }) };
}

async function warnings(config: Config): Promise<unknown[]> {
  const { told, log } = warned();
  await requireTables(config.databaseUrl, log);
  return told;
}

test.each([
  "update audit set caller = 'nobody'",
  "delete from audit",
  "truncate audit",
  "alter table audit disable trigger audit_append_only",
  "drop trigger audit_append_only on audit",
  "create trigger mine before insert on audit execute function audit_is_append_only()",
  "create or replace function audit_is_append_only() returns trigger language plpgsql as 'BEGIN RETURN NULL; END'",
  "create rule mine as on insert to audit do instead nothing",
  "DO $$ BEGIN LOCK TABLE audit IN ACCESS EXCLUSIVE MODE; END $$",
  "set session authorization postgres",
  "delete from keys",
  "delete from tenants",
  "delete from audit_register",
  "delete from schema_migrations",
  "insert into schema_migrations (name) values ('9999_later')",
  "create table mine ()",
])("the running vault's role may not execute: %s", async (sql) => {
  expect(await tried(sql)).toBe(DENIED);
});

test("the running vault's role differs from the owner and cannot assume the owner's role", async () => {
  const owner = new URL(vault.home.config.migrationDatabaseUrl).username;
  expect(await tried(`set role ${owner}`)).toBe(DENIED);
});

test("the vault works with exactly the rights that migrate grants", async () => {
  await migrate(vault.home.config, SILENT);
  const key = await vault.makeAgent("acc-1");
  await vault.vault.journal.record({ caller: ADMIN, statement: "call", outcome: "granted", detail: {} });
  expect(await vault.verifyAudit()).toMatchObject({ intact: true });
  expect(await vault.vault.store.find(key.key_id)).toMatchObject({ state: "active" });
});

test("migrate revokes rights of the running vault's role that somebody granted in addition", async () => {
  const { username } = new URL(vault.home.config.databaseUrl);
  await vault.home.sql(`grant update on audit to ${username}; grant delete on audit to public`);
  expect(await warnings(vault.home.config)).toEqual(["audit_rewritable"]);
  await migrate(vault.home.config, SILENT);
  expect(await warnings(vault.home.config)).toEqual([]);
  expect(await tried("update audit set caller = 'nobody'")).toBe(DENIED);
  expect(await tried("delete from audit")).toBe(DENIED);
});

test.each(["UPDATE", "DELETE", "TRUNCATE", "TRIGGER"])(
  "startup warns about a role that has the right %s on the audit table",
  async (right) => {
    const { username } = new URL(vault.home.config.databaseUrl);
    await vault.home.sql(`grant ${right} on audit to ${username}`);
    expect(await warnings(vault.home.config)).toEqual(["audit_rewritable"]);
    await vault.home.sql(`revoke ${right} on audit from ${username}`);
    expect(await warnings(vault.home.config)).toEqual([]);
  },
);

test("startup warns about a vault that runs as the owner or as a member of the owner's role", async () => {
  const { databaseUrl, migrationDatabaseUrl } = vault.home.config;
  expect(await warnings({ ...vault.home.config, databaseUrl: migrationDatabaseUrl })).toEqual([
    "audit_rewritable",
  ]);
  const [owner, running] = [migrationDatabaseUrl, databaseUrl].map((url) => new URL(url).username);
  const member = `member_of_${owner}`;
  const superuser = new pg.Client({ connectionString: runPart("postgresUrl") });
  await superuser.connect();
  try {
    await superuser.query(`create role ${member} login password 'of a test' in role ${owner}, ${running}`);
    const url = Object.assign(new URL(databaseUrl), { username: member, password: "of a test" });
    expect(await warnings({ ...vault.home.config, databaseUrl: url.href })).toEqual(["audit_rewritable"]);
  } finally {
    await superuser.query(`drop role if exists ${member}`);
    await superuser.end();
  }
});

test("a vault that does not own the tables starts only with tables of its version, and the error names the command to run", async () => {
  const start = () => requireTables(empty.config.databaseUrl, SILENT);
  await expect(start()).rejects.toThrow('The database has no tables of a vault: run "keyvault init"');
  await migrateToLevel(empty, 7);
  await expect(start()).rejects.toThrow(/was not given its rights: run "keyvault migrate"/);
  await empty.sql(`grant select on schema_migrations to ${new URL(empty.config.databaseUrl).username}`);
  await expect(start()).rejects.toThrow(/lacks 0008_audit_register, .*: run "keyvault migrate"/);
  await migrate(empty.config, SILENT);
  await expect(start()).resolves.toBeUndefined();
});

test("migrate rejects two URLs of different databases before it grants any right", async () => {
  const { databaseUrl } = vault.home.config;
  const { migrationDatabaseUrl } = empty.config;
  await expect(migrate({ databaseUrl, migrationDatabaseUrl }, SILENT)).rejects.toThrow(
    /name different databases/,
  );
});

test("databases with the same name on two servers count as different", async () => {
  const on = (server: string) =>
    ({
      raw: async () => ({ rows: [{ role: "one", database: "keyvault", server }] }),
    }) as unknown as Database;
  expect(await findRunningRole(on("a"), on("a"))).toBeUndefined();
  await expect(findRunningRole(on("a"), on("b"))).rejects.toThrow(/name different databases/);
});

test("an error of the owner's database names the setting with its URL", async () => {
  const unreachable = "postgres://keyvault_owner:secret@127.0.0.1:1/none";
  const urls = { databaseUrl: vault.home.config.databaseUrl, migrationDatabaseUrl: unreachable };
  await expect(migrate(urls, SILENT)).rejects.toMatchObject({ setting: "KEYVAULT_MIGRATION_DATABASE_URL" });
  const turned = { databaseUrl: unreachable, migrationDatabaseUrl: vault.home.config.migrationDatabaseUrl };
  await expect(migrate(turned, SILENT)).rejects.toMatchObject({ setting: "KEYVAULT_DATABASE_URL" });
});

test("startup warns about the owner's URL in the running vault's environment", () => {
  const { told, log } = warned();
  warnOfExposure(vault.home.config, log);
  expect(told).toContain("owner_url_present");
  const { databaseUrl } = vault.home.config;
  warnOfExposure({ ...vault.home.config, migrationDatabaseUrl: databaseUrl }, log);
  expect(told.filter((event) => event === "owner_url_present")).toHaveLength(1);
});
