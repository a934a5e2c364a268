import type { Knex } from "knex";
import type { Config } from "../config.ts";
import { UserError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { blaming, createClient, type Database, openDatabase } from "./database.ts";
import { keys } from "./migrations/0001_keys.ts";
import { audit } from "./migrations/0002_audit.ts";
import { lifecycle } from "./migrations/0003_lifecycle.ts";
import { sequences } from "./migrations/0004_sequences.ts";
import { residents } from "./migrations/0005_residents.ts";
import { roots } from "./migrations/0006_roots.ts";
import { residentRecords } from "./migrations/0007_resident_records.ts";
import { auditRegister } from "./migrations/0008_audit_register.ts";
import { listedCertificates } from "./migrations/0009_listed_certificates.ts";
import { findRunningRole, grantPrivileges } from "./privileges.ts";

/** Numbered, forward-only. A landed one is never edited: a change is a new number at the end. */
const migrations = [
  keys,
  audit,
  lifecycle,
  sequences,
  residents,
  roots,
  residentRecords,
  auditRegister,
  listedCertificates,
];

/** Names of all migrations that this code knows, in their order. */
export function migrationNames(): string[] {
  return migrations.map(({ name }) => name);
}

/**
 * Of these applied migrations the one that this code does not know, undefined when it knows all. A database
 * may be one ahead, because a migration leaves in place what the version before it needs: that version starts
 * and works when a release is taken back.
 *
 * Throws `UserError` when the database is more than one ahead, or lacks migrations and has unknown ones
 */
export function migrationAhead(applied: readonly string[]): string | undefined {
  const known = migrationNames();
  const unknown = applied.filter((name) => !known.includes(name));
  const missing = known.filter((name) => !applied.includes(name));
  if (unknown.length > 1) {
    throw new UserError(
      `The database is ${unknown.length} migrations ahead of this version, which works with one at most: run the version that made ${unknown.at(-1)}`,
    );
  }
  if (unknown.length > 0 && missing.length > 0) {
    throw new UserError(
      `The database is of a version that is neither earlier nor later: it has ${unknown[0]} and lacks ${missing.join(", ")}`,
    );
  }
  return unknown[0];
}

/** One step of the schema: a numbered name and the SQL that makes it. */
export type Migration = { name: string; sql: string };

/**
 * The two ways into the vault's database: as the role that runs, and as the one that owns the tables. They
 * may be one.
 */
export type SchemaUrls = Pick<Config, "databaseUrl" | "migrationDatabaseUrl">;

/**
 * Brings the vault's database to the newest schema, each migration in a transaction of its own, gives the
 * role that runs exactly the rights it needs, and returns the names of the migrations it applied. Safe to run
 * again and from several processes.
 *
 * Throws `UserError` when the two roles do not lead to one database, or when that is newer than this code
 */
export async function migrate(urls: SchemaUrls, log: Logger): Promise<string[]> {
  return withSchemaLock(urls, log, async (database, running) => {
    const ahead = migrationAhead(await appliedNames(database));
    if (ahead !== undefined) {
      if (running !== undefined) await grantPrivileges(database, running, "add");
      return [];
    }
    // knex's own lock is a row, which a killed migration leaves behind; the holder of the advisory lock may
    // clear it.
    await database.migrate.forceFreeMigrationsLock(settings);
    const [, applied] = await database.migrate.latest(settings);
    if (running !== undefined) await grantPrivileges(database, running);
    return applied;
  });
}

/**
 * Does something as the owner of the tables while no other process changes the schema. `running` is the role
 * that runs, where it is another one.
 */
export async function withSchemaLock<T>(
  urls: SchemaUrls,
  log: Logger,
  work: (database: Database, running: string | undefined) => Promise<T>,
): Promise<T> {
  const database = openDatabase(urls.migrationDatabaseUrl, log, 2, MIGRATION_TIMEOUT_MS);
  const guest = openDatabase(urls.databaseUrl, log, 1);
  const lock = createClient(urls.migrationDatabaseUrl);
  lock.on("error", () => {});
  try {
    return await asOwner(urls, async () => {
      await lock.connect();
      await lock.query("select pg_advisory_lock($1)", [MIGRATION_LOCK]);
      const running = await blaming("KEYVAULT_DATABASE_URL", () => findRunningRole(database, guest));
      return work(database, running);
    });
  } finally {
    lock.end().catch(() => {});
    await Promise.all([guest.destroy(), database.destroy()]);
  }
}

/** Does something as the owner of the tables; an error of the database names the setting that led there. */
export async function asOwner<T>(
  { databaseUrl, migrationDatabaseUrl }: SchemaUrls,
  work: () => Promise<T>,
): Promise<T> {
  return migrationDatabaseUrl === databaseUrl ? work() : blaming("KEYVAULT_MIGRATION_DATABASE_URL", work);
}

/** Names of the migrations that the database has, in their order; of tables that have not been made, none. */
export async function appliedNames(database: Database): Promise<string[]> {
  if (!(await database.schema.hasTable("schema_migrations"))) return [];
  return database("schema_migrations").orderBy("id").pluck<string[]>("name");
}

/** Names of the migrations that the database has, in their order. Throws when it is newer than this code. */
export async function appliedMigrations(transaction: Knex.Transaction): Promise<string[]> {
  const [applied]: [{ name: string }[]] = await transaction.migrate.list(settings);
  return applied.map(({ name }) => name);
}

/**
 * Applies all migrations up to and with the one of this name that the database lacks, and gives their names.
 * They end with the transaction.
 */
export async function migrateTo(transaction: Knex.Transaction, name: string): Promise<string[]> {
  await transaction.migrate.forceFreeMigrationsLock(settings);
  const [, applied]: [number, string[]] = await transaction.migrate.to({ ...settings, name });
  return applied;
}

/** Takes everything away that migrations made. The caller knows that there are no rows. */
export async function dropSchema(transaction: Knex.Transaction): Promise<void> {
  await transaction.raw(`
    drop table if exists listed_certificates, audit_register, residents, keys, tenants, audit, schema_migrations, schema_migrations_lock;
    drop function if exists audit_is_append_only;
  `);
}

const MIGRATION_LOCK = 7_233_102;
/** For an index on the audit of years. */
const MIGRATION_TIMEOUT_MS = 3_600_000;

const settings: Knex.MigratorConfig = {
  tableName: "schema_migrations",
  migrationSource: {
    getMigrations: async () => migrations,
    getMigrationName: (migration: Migration) => migration.name,
    getMigration: async (migration: Migration) => ({
      up: (transaction) => transaction.raw(migration.sql),
      down: async () => {
        throw new Error("Migrations go forward only");
      },
    }),
  },
};
