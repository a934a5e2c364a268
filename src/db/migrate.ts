import { openDatabase } from "./connection.ts";
import { accounts } from "./migrations/0001_accounts.ts";
import { platforms } from "./migrations/0002_platforms.ts";
import { delegations } from "./migrations/0003_delegations.ts";
import { proofs } from "./migrations/0004_proofs.ts";
import { events } from "./migrations/0005_events.ts";

/** Numbered, forward-only. A landed one is never edited: a change is a new number at the end. */
const migrations = [accounts, platforms, delegations, proofs, events];

/**
 * Brings the API's database to the newest schema, each migration in a transaction of its own. Safe to run from
 * several processes at once and again when nothing is left to do. Throws when the database is newer than this code.
 */
export async function migrate(url: string): Promise<{ applied: string[] }> {
  const database = openDatabase({ url, name: "deputize-migrate", max: 2, onError: () => {} });
  try {
    const [, applied] = await database.migrate.latest({
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
    });
    return { applied };
  } finally {
    await database.destroy();
  }
}

/** One step of the schema: a numbered name and the SQL that makes it. */
export type Migration = { name: string; sql: string };
