import type { Knex } from "knex";
import type { Config } from "../config.ts";
import { UserError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { createClient, type Database, openDatabase, withSettingOnError } from "./database.ts";
import { type Migration, migrations } from "./migrations.ts";
import { connectWithoutPooler } from "./poolers.ts";

/** Returns the names of all migrations that this code knows, in order. */
export function migrationNames(): string[] {
  return migrations.map(({ name }) => name);
}

/**
 * Returns the name of the applied migration that this code does not know, or `undefined` if there is none. A
 * database may be one migration ahead, because a migration keeps everything that the previous version needs.
 * So a release can be rolled back. Throws `UserError` if the database is more than one migration ahead, or if
 * it has an unknown migration and also lacks a known one.
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

/** URLs for the role that runs the vault and for the role that owns the tables. The two URLs may be equal. */
export type SchemaUrls = Pick<Config, "databaseUrl" | "migrationDatabaseUrl">;

/**
 * Migrates the vault's database to the newest schema, each migration in its own transaction. Gives the role
 * that runs the vault exactly the rights that it needs. Returns the names of the migrations that it applied.
 * Safe to repeat and to run from several processes. Throws `UserError` if the two roles reach different
 * databases, or if the database is newer than this code.
 */
export async function migrate(urls: SchemaUrls, log: Logger): Promise<string[]> {
  return withSchemaLock(urls, log, async (database, running) => {
    const ahead = migrationAhead(await appliedNames(database));
    if (ahead !== undefined) {
      if (running !== undefined) await grantPrivileges(database, running, "add");
      return [];
    }
    // Clears knex's own lock, a row that remains after a migration was killed. This is safe because this
    // process holds the advisory lock.
    await database.migrate.forceFreeMigrationsLock(settings);
    const [, applied] = await database.migrate.latest(settings);
    if (running !== undefined) await grantPrivileges(database, running);
    return applied;
  });
}

/**
 * Runs `work` as the owner of the tables while no other process changes the schema. `running` is the role
 * that runs the vault, or `undefined` if that role is the owner.
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
      await connectWithoutPooler(lock);
      await lock.query("select pg_advisory_lock($1)", [MIGRATION_LOCK]);
      const running = await withSettingOnError("KEYVAULT_DATABASE_URL", () =>
        findRunningRole(database, guest),
      );
      return work(database, running);
    });
  } finally {
    lock.end().catch(() => {});
    await Promise.all([guest.destroy(), database.destroy()]);
  }
}

/**
 * Runs `work` as the owner of the tables. A database error names the setting that contains the owner's URL.
 */
export async function asOwner<T>(
  { databaseUrl, migrationDatabaseUrl }: SchemaUrls,
  work: () => Promise<T>,
): Promise<T> {
  return migrationDatabaseUrl === databaseUrl
    ? work()
    : withSettingOnError("KEYVAULT_MIGRATION_DATABASE_URL", work);
}

/** Returns the names of the migrations applied to the database, in order, or none if there are no tables. */
export async function appliedNames(database: Database): Promise<string[]> {
  if (!(await database.schema.hasTable("schema_migrations"))) return [];
  return database("schema_migrations").orderBy("id").pluck<string[]>("name");
}

/** Returns the names of the applied migrations, in order. Throws if the database is newer than this code. */
export async function appliedMigrations(transaction: Knex.Transaction): Promise<string[]> {
  const [applied]: [{ name: string }[]] = await transaction.migrate.list(settings);
  return applied.map(({ name }) => name);
}

/** Applies all missing migrations up to and including `name`, in the transaction. Returns their names. */
export async function migrateTo(transaction: Knex.Transaction, name: string): Promise<string[]> {
  await transaction.migrate.forceFreeMigrationsLock(settings);
  const [, applied]: [number, string[]] = await transaction.migrate.to({ ...settings, name });
  return applied;
}

/** Drops everything that migrations created. The caller must make sure that the tables have no rows. */
export async function dropSchema(transaction: Knex.Transaction): Promise<void> {
  await transaction.raw(`
    drop table if exists listed_certificates, audit_register, residents, keys, tenants, audit, schema_migrations, schema_migrations_lock;
    drop function if exists audit_is_append_only;
  `);
}

const MIGRATION_LOCK = 7_233_102;
/** Timeout of a migration. It suffices to build an index on an audit table with years of records. */
const MIGRATION_TIMEOUT_MS = 3_600_000;

const settings: Knex.MigratorConfig = {
  tableName: "schema_migrations",
  migrationSource: {
    getMigrations: async () => [...migrations],
    getMigrationName: (migration: Migration) => migration.name,
    getMigration: async (migration: Migration) => ({
      up: (transaction) => transaction.raw(migration.sql),
      down: async () => {
        throw new Error("Migrations go forward only");
      },
    }),
  },
};

/** Rights of the role that runs the vault. This role can neither alter nor remove audit records. */
const PRIVILEGES: Readonly<Record<string, string>> = {
  audit: "select, insert",
  tenants: "select, insert, update",
  keys: "select, insert, update",
  audit_register: "select, insert, update",
  listed_certificates: "select, insert, update, delete",
  schema_migrations: "select",
};

type Place = { role: string; database: string; server: string };

const WHERE =
  "select current_user as role, current_database() as database, pg_postmaster_start_time()::text as server";

/**
 * Returns the role that runs the vault, or `undefined` if it is the owner. Throws `UserError` if the two
 * roles reach different databases.
 */
export async function findRunningRole(owner: Database, running: Database): Promise<string | undefined> {
  const own = await place(owner);
  const other = await place(running);
  if (own.database !== other.database || own.server !== other.server) {
    throw new UserError(
      "KEYVAULT_DATABASE_URL and KEYVAULT_MIGRATION_DATABASE_URL name different databases: they must be two roles of the same database",
    );
  }
  return own.role === other.role ? undefined : other.role;
}

/**
 * Gives the role that runs the vault its rights on the owner's tables. Revokes all its other rights there,
 * and those of `public`. With `add`, revokes nothing.
 */
export async function grantPrivileges(
  owner: Database | Knex.Transaction,
  running: string,
  how: "set" | "add" = "set",
): Promise<void> {
  await owner.transaction(async (transaction) => {
    const { rows } = await transaction.raw<{ rows: [{ schema: string }] }>(
      "select current_schema() as schema",
    );
    await transaction.raw("grant usage on schema ?? to ??", [rows[0].schema, running]);
    for (const [table, rights] of Object.entries(PRIVILEGES)) {
      if (how === "set") await transaction.raw("revoke all on ?? from public, ??", [table, running]);
      await transaction.raw(`grant ${rights} on ?? to ??`, [table, running]);
    }
  });
}

async function place(database: Database): Promise<Place> {
  const { rows } = await database.raw<{ rows: [Place] }>(WHERE);
  return rows[0];
}
