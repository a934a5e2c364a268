import { openDatabase, openPool } from "./database.ts";
import { accounts } from "./migrations/0001_accounts.ts";
import { platforms } from "./migrations/0002_platforms.ts";
import { delegations } from "./migrations/0003_delegations.ts";
import { proofs } from "./migrations/0004_proofs.ts";
import { events } from "./migrations/0005_events.ts";
import { operations } from "./migrations/0006_operations.ts";
import { accountCeiling } from "./migrations/0007_account_ceiling.ts";
import { webhookSecrets } from "./migrations/0008_webhook_secrets.ts";
import { revocationLists } from "./migrations/0009_revocation_lists.ts";
import { outcomes } from "./migrations/0010_outcomes.ts";
import { acceptedPrincipals } from "./migrations/0011_accepted_principals.ts";
import { credits } from "./migrations/0012_credits.ts";
import { signIn } from "./migrations/0013_sign_in.ts";
import { idempotencyCallers } from "./migrations/0014_idempotency_callers.ts";
import { verifierNames } from "./migrations/0015_verifier_names.ts";
import { grantAmounts } from "./migrations/0016_grant_amounts.ts";
import { isSpent } from "./migrations/0017_is_spent.ts";
import { keptSecrets } from "./migrations/0018_kept_secrets.ts";
import { presented } from "./migrations/0019_presented.ts";
import { clusters } from "./migrations/0020_clusters.ts";
import { adoptions } from "./migrations/0021_adoptions.ts";
import { eventCarriers } from "./migrations/0022_event_carriers.ts";
import { eventLog } from "./migrations/0023_event_log.ts";
import { deliveriesForPeople } from "./migrations/0024_deliveries_for_people.ts";
import { deadLettersAge } from "./migrations/0025_dead_letters_age.ts";

/** One step of the schema: a numbered name and the SQL that makes it. */
export type Migration = { name: string; sql: string };

/** Numbered, forward-only. A landed one is never edited: a change is a new number at the end. */
const migrations: readonly Migration[] = [
  accounts,
  platforms,
  delegations,
  proofs,
  events,
  operations,
  accountCeiling,
  webhookSecrets,
  revocationLists,
  outcomes,
  acceptedPrincipals,
  credits,
  signIn,
  idempotencyCallers,
  verifierNames,
  grantAmounts,
  isSpent,
  keptSecrets,
  presented,
  clusters,
  adoptions,
  eventCarriers,
  eventLog,
  deliveriesForPeople,
  deadLettersAge,
];

const settings = {
  tableName: "schema_migrations",
  migrationSource: {
    getMigrations: async () => [...migrations],
    getMigrationName: (migration: Migration) => migration.name,
    getMigration: async (migration: Migration) => ({
      up: (transaction: { raw(sql: string): Promise<void> }) => transaction.raw(migration.sql),
      down: async () => {
        throw new Error("Migrations go forward only");
      },
    }),
  },
};

const LOCK = "select pg_advisory_lock(hashtext('deputize.migrate'))";

/**
 * Brings the API's database to the newest schema, each migration in a transaction of its own. Safe to run
 * from several processes concurrently, again when nothing is left to do, and after a run that was killed.
 * Throws when the database is newer than this code.
 */
export async function migrate(url: string): Promise<{ applied: string[] }> {
  const common = { url, name: "deputize-migrate", onError: () => {} };
  const [database, locks] = [openDatabase({ ...common, max: 2 }), openPool({ ...common, max: 1 })];
  try {
    await locks.query(LOCK);
    // The library's own lock is a row, which a killed run leaves behind; the holder of the advisory lock may
    // clear it.
    await database.migrate.forceFreeMigrationsLock(settings);
    const [, applied] = await database.migrate.latest(settings);
    return { applied };
  } finally {
    await locks.end();
    await database.destroy();
  }
}
