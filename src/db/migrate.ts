import { setTimeout as sleep } from "node:timers/promises";
import type { PoolClient } from "pg";
import { StartError } from "../config.ts";
import type { Logger } from "../log.ts";
import { type Database, type DatabaseSettings, openDatabase, openPool } from "./database.ts";
import { isAway, LOCK_NOT_AVAILABLE, outageReason, sqlState } from "./errors.ts";
import { accounts, delegations, platforms, proofs } from "./migrations/from_0001.ts";
import {
  acceptedPrincipals,
  accountCeiling,
  events,
  operations,
  outcomes,
  revocationLists,
  webhookSecrets,
} from "./migrations/from_0005.ts";
import {
  credits,
  grantAmounts,
  idempotencyCallers,
  isSpent,
  keptSecrets,
  presented,
  signIn,
  verifierNames,
} from "./migrations/from_0012.ts";
import {
  adoptions,
  clusters,
  deadLettersAge,
  deliveriesForPeople,
  eventCarriers,
  eventLog,
} from "./migrations/from_0020.ts";
import { from0026 } from "./migrations/from_0026.ts";
import { latest } from "./migrations/from_0032.ts";
import { buildIndexes, type GrowingBound, type GrowingIndex, proveBounds } from "./online_changes.ts";
import { requireSessions } from "./pooler/check_poolers.ts";
import { createRefusalCheck } from "./refusals.ts";
import {
  appliedMigrations,
  assertHasSchema,
  judgeSchema,
  type SchemaState,
  strangeSchema,
} from "./schema_state.ts";

/**
 * One step of the schema. `sql` runs in one transaction. Before it, the migration builds `indexes` on
 * existing tables and proves `bounds` of tables that become partitions, without blocking other sessions.
 */
export type Migration = {
  name: string;
  sql: string;
  indexes?: readonly GrowingIndex[];
  bounds?: readonly GrowingBound[];
};

/** All migrations, forward only. A landed migration is never edited. Append a new number for each change. */
export const migrations: readonly Migration[] = [
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
  ...from0026,
  ...latest,
];

/** The migrations to apply, and how long to wait for the database and for locks. */
export type MigrateOptions = {
  migrations?: readonly Migration[];
  /**
   * Milliseconds to wait. `databaseMs`: until the database runs (default: no waiting). `lockMs`: until
   * another migration run ends, and until other sessions release their locks (default: 5 minutes each).
   */
  databaseMs?: number;
  lockMs?: number;
  /** Logs each reason for waiting once. */
  log?: Pick<Logger, "info">;
};

/** The database did not answer, or a lock that a migration needs was held, for the whole waiting time. */
export class MigrationPutOff extends Error {
  override readonly name = "MigrationPutOff";
}

/** Tries to take the lock. Does not wait, because a waiting statement would delay the build of an index. */
const LOCK = "select pg_try_advisory_lock(hashtext('deputize.migrate')) as free";
const LOCK_WAIT_MS = 300_000;
/**
 * Milliseconds after which a migration stops waiting for a table's lock, to try again later. A statement that
 * waits for the lock blocks all later users of the table, and decisions wait at most 2 s.
 */
const TABLE_LOCK_MS = 500;
const PAUSE_MS = 1_000;

/**
 * Migrates the API's database to the newest schema, each migration in its own transaction. Safe to call while
 * other processes use the database, in several processes concurrently, when nothing is left to apply, and
 * after a killed run.
 *
 * Throws `StartError` if the database is newer than this version supports, refuses this process, or is behind
 * a pooler that loses session locks. Throws `MigrationPutOff` if it could not be reached or locked in time.
 * After any error, the migrations applied before it remain.
 */
export async function migrate(url: string, options: MigrateOptions = {}): Promise<{ applied: string[] }> {
  const { migrations: wanted = migrations, databaseMs = 0, lockMs = LOCK_WAIT_MS } = options;
  const common = { url, name: "deputize-migrate", keepsSession: true, onError: () => {} };
  const database = openDatabase({ ...common, max: 2, lockMs: TABLE_LOCK_MS });
  const say = createOnceLogger(options.log);
  const check = createRefusalCheck();
  const isRetryable = (error: unknown) => {
    check(error);
    return isAway(error);
  };
  try {
    await retryPatiently(() => requireSessions(url).then(() => assertHasSchema(database)), {
      ms: databaseMs,
      isRetryable,
      waiting: (error) => say(`the database does not answer yet: ${outageReason(error)}`),
      giveUpMessage: (error) =>
        `The database did not answer in ${databaseMs / 1000} s: ${outageReason(error)}`,
    });
    return await withMigrationLock({ ...common, max: 1, lockMs }, say, async (alone) => ({
      applied: await applyAll({ database, alone }, wanted, lockMs, say),
    }));
  } finally {
    await database.destroy();
  }
}

/** Returns whether this version supports a database's schema. Rejects if the database does not answer. */
export async function readSchemaState(database: Database): Promise<SchemaState> {
  return judgeSchema(
    await appliedMigrations(database),
    migrations.map(({ name }) => name),
  );
}

async function applyAll(
  { database, alone }: { database: Database; alone: PoolClient },
  wanted: readonly Migration[],
  lockMs: number,
  say: Say,
): Promise<string[]> {
  const settings = settingsFor(wanted);
  const names = wanted.map(({ name }) => name);
  const state = judgeSchema(await appliedMigrations(database), names);
  if (state.kind === "strange") throw new StartError(strangeSchema(state.unknown));
  // Clears the library's own lock, a row that a killed run leaves behind. No other run needs this row while
  // this run holds the advisory lock.
  await database.migrate.forceFreeMigrationsLock(settings);
  const heldByOthers: Patience = {
    ms: lockMs,
    isRetryable: (error) => sqlState(error) === LOCK_NOT_AVAILABLE,
    waiting: () => say("a table that a migration changes is locked by others"),
    giveUpMessage: () =>
      `A table that a migration changes was locked by others for ${lockMs / 1000} s, for example by a backup ` +
      "or an open transaction: end it, then run the migration again",
  };
  const times = { brief: TABLE_LOCK_MS, long: lockMs };
  const applied: string[] = [];
  for (let more = state.kind === "behind"; more; ) {
    const known = await appliedMigrations(database);
    const next = nextOf(wanted, known);
    await retryPatiently(() => buildIndexes(alone, next?.indexes ?? [], times), heldByOthers);
    await retryPatiently(() => proveBounds(alone, next?.bounds ?? [], times), heldByOthers);
    const [, names] = await retryPatiently(
      () => database.migrate.up(settings) as Promise<[number, string[]]>,
      heldByOthers,
    );
    applied.push(...names);
    more = names.length > 0;
  }
  return applied;
}

function nextOf(wanted: readonly Migration[], known: readonly string[]): Migration | undefined {
  return wanted.find(({ name }) => !known.includes(name));
}

function settingsFor(wanted: readonly Migration[]) {
  return {
    tableName: "schema_migrations",
    // The library must accept unknown migrations, because `judgeSchema` accepts one of the next release.
    disableMigrationsListValidation: true,
    migrationSource: {
      getMigrations: async () => [...wanted],
      getMigrationName: (migration: Migration) => migration.name,
      getMigration: async (migration: Migration) => ({
        up: (transaction: { raw(sql: string): Promise<void> }) => transaction.raw(migration.sql),
        down: async () => {
          throw new Error("Migrations go forward only");
        },
      }),
    },
  };
}

type Patience = {
  ms: number;
  isRetryable(error: unknown): boolean;
  waiting(error: unknown): void;
  giveUpMessage(error: unknown): string;
};

/** Retries the work after retryable errors. Throws `MigrationPutOff` when the waiting time is over. */
async function retryPatiently<T>(work: () => Promise<T>, patience: Patience): Promise<T> {
  const giveUp = performance.now() + patience.ms;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!patience.isRetryable(error)) throw error;
      if (performance.now() >= giveUp) {
        throw new MigrationPutOff(patience.giveUpMessage(error), { cause: error });
      }
      patience.waiting(error);
      await sleep(Math.min(PAUSE_MS, patience.ms));
    }
  }
}

type Say = (what: string) => void;

/**
 * Runs the work under the lock that excludes other migration runs. Reserves one connection for the lock,
 * because a pool would close an idle connection.
 */
async function withMigrationLock<T>(
  settings: DatabaseSettings & { lockMs: number },
  say: Say,
  work: (alone: PoolClient) => Promise<T>,
): Promise<T> {
  const locks = openPool(settings);
  try {
    const alone = await locks.connect();
    try {
      await lockOrPutOff(alone, settings.lockMs, say);
      return await work(alone);
    } finally {
      alone.release(true);
    }
  } finally {
    await locks.end();
  }
}

async function lockOrPutOff(alone: PoolClient, lockMs: number, say: Say): Promise<void> {
  const held = new Error("another run holds the lock");
  await retryPatiently(
    async () => {
      const { rows } = await alone.query<{ free: boolean }>(LOCK);
      if (rows[0]?.free !== true) throw held;
    },
    {
      ms: lockMs,
      isRetryable: (error) => error === held,
      waiting: () => say("another `deputize migrate` is running on this database"),
      giveUpMessage: () =>
        `Another \`deputize migrate\` has been running on this database for more than ${lockMs / 1000} s: wait until it ends, then run it again`,
    },
  );
}

function createOnceLogger(log: MigrateOptions["log"]): Say {
  const said = new Set<string>();
  return (what) => {
    if (!said.has(what)) log?.info(`waiting: ${what}`);
    said.add(what);
  };
}
