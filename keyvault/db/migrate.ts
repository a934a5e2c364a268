import type { Knex } from "knex";
import type { Logger } from "../log.ts";
import { createClient, type Database, openDatabase } from "./connection.ts";
import { keys } from "./migrations/0001_keys.ts";
import { audit } from "./migrations/0002_audit.ts";
import { lifecycle } from "./migrations/0003_lifecycle.ts";
import { sequences } from "./migrations/0004_sequences.ts";
import { residents } from "./migrations/0005_residents.ts";
import { roots } from "./migrations/0006_roots.ts";
import { residentRecords } from "./migrations/0007_resident_records.ts";
import { auditRegister } from "./migrations/0008_audit_register.ts";
import { listedCertificates } from "./migrations/0009_listed_certificates.ts";

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

/** One step of the schema: a numbered name and the SQL that makes it. */
export type Migration = { name: string; sql: string };

/**
 * Brings the vault's database to the newest schema, each migration in a transaction of its own, and gives the names of those it applied.
 * Safe to run again and from several processes. Throws when the database is newer than this code.
 */
export async function migrate(url: string, log: Logger): Promise<string[]> {
  return withSchemaLock(url, log, async (database) => {
    // knex's own lock is a row, which a killed migration leaves behind; whoever holds the advisory lock may clear it.
    await database.migrate.forceFreeMigrationsLock(settings);
    const [, applied] = await database.migrate.latest(settings);
    return applied;
  });
}

/** Does something while no other process changes the schema. */
export async function withSchemaLock<T>(
  url: string,
  log: Logger,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const database = openDatabase(url, log, 2, MIGRATION_TIMEOUT_MS);
  const lock = createClient(url);
  lock.on("error", () => {});
  try {
    await lock.connect();
    await lock.query("SELECT pg_advisory_lock($1)", [MIGRATION_LOCK]);
    return await work(database);
  } finally {
    lock.end().catch(() => {});
    await database.destroy();
  }
}

/** Names of the migrations that the database has, in their order. Throws when it is newer than this code. */
export async function appliedMigrations(transaction: Knex.Transaction): Promise<string[]> {
  const [applied]: [{ name: string }[]] = await transaction.migrate.list(settings);
  return applied.map(({ name }) => name);
}

/** Applies all migrations up to and with the one of this name that the database lacks, and gives their names. They end with the transaction. */
export async function migrateTo(transaction: Knex.Transaction, name: string): Promise<string[]> {
  await transaction.migrate.forceFreeMigrationsLock(settings);
  const [, applied]: [number, string[]] = await transaction.migrate.to({ ...settings, name });
  return applied;
}

/** Takes everything away that migrations made. The caller knows that there are no rows. */
export async function dropSchema(transaction: Knex.Transaction): Promise<void> {
  await transaction.raw(`
    DROP TABLE IF EXISTS listed_certificates, audit_register, residents, keys, tenants, audit, schema_migrations, schema_migrations_lock;
    DROP FUNCTION IF EXISTS audit_is_append_only;
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
