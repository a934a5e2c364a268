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
import { latest } from "./migrations/from_0026.ts";
import { buildIndexes, type GrowingBound, type GrowingIndex, proveBounds } from "./online_changes.ts";
import { appliedMigrations, judgeSchema, type SchemaState, strangeSchema } from "./schema_state.ts";

/**
 * One step of the schema: a numbered name, the indexes on tables that were there before it and the bounds of
 * those that become partitions, which are built and proven first and without keeping anybody waiting, and the
 * SQL that makes the rest in one transaction.
 */
export type Migration = {
  name: string;
  sql: string;
  indexes?: readonly GrowingIndex[];
  bounds?: readonly GrowingBound[];
};

/** Numbered, forward-only. A landed one is never edited: a change is a new number at the end. */
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
  ...latest,
];

/** A version's migrations, and how long it waits for what keeps it from applying them. */
export type MigrateOptions = {
  /** Default: those of this version. */
  migrations?: readonly Migration[];
  /**
   * For a database that is not up yet, for another run, and for locks that others hold: milliseconds for each
   * of them. Default: none for the database, 5 minutes for the rest.
   */
  databaseMs?: number;
  lockMs?: number;
  /** Told what is waited for, once for each reason. */
  log?: Pick<Logger, "info">;
};

/** The database did not answer, or what a migration needs was held by others, for as long as was waited. */
export class MigrationPutOff extends Error {
  override readonly name = "MigrationPutOff";
}

/** Waiting for it in a statement would keep an index from being built until that statement ends. */
const LOCK = "select pg_try_advisory_lock(hashtext('deputize.migrate')) as free";
const LOCK_WAIT_MS = 300_000;
/**
 * Whoever waits for a table's lock keeps all later callers of that table waiting. Decisions wait for 2 s at
 * most, so that a migration gives up long before and tries again.
 */
const TABLE_LOCK_MS = 500;
const PAUSE_MS = 1_000;

/**
 * Brings the API's database to the newest schema, each migration in a transaction of its own. Safe beside
 * running processes, from several processes concurrently, again when nothing is left to do, and after a run
 * that was killed. Throws `StartError` when the database is newer than this code bears, `MigrationPutOff`
 * when it could not be reached or locked in time; then, and when a migration fails, what was applied before
 * stays.
 */
export async function migrate(url: string, options: MigrateOptions = {}): Promise<{ applied: string[] }> {
  const { migrations: wanted = migrations, databaseMs = 0, lockMs = LOCK_WAIT_MS } = options;
  const common = { url, name: "deputize-migrate", onError: () => {} };
  const database = openDatabase({ ...common, max: 2, lockMs: TABLE_LOCK_MS });
  const say = createSaying(options.log);
  try {
    await patiently(() => database.raw("select 1"), {
      ms: databaseMs,
      isWorthIt: isAway,
      waiting: (error) => say(`the database does not answer yet: ${outageReason(error)}`),
      gaveUp: (error) => `The database did not answer in ${databaseMs / 1000} s: ${outageReason(error)}`,
    });
    return await aloneHere({ ...common, max: 1, lockMs }, say, async (alone) => ({
      applied: await applyAll({ database, alone }, wanted, lockMs, say),
    }));
  } finally {
    await database.destroy();
  }
}

/** Whether this version works on a database's schema as it is. Rejects when it does not answer. */
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
  // The library's own lock is a row, which a killed run leaves behind; the holder of the advisory lock may
  // clear it.
  await database.migrate.forceFreeMigrationsLock(settings);
  const heldByOthers: Patience = {
    ms: lockMs,
    isWorthIt: (error) => sqlState(error) === LOCK_NOT_AVAILABLE,
    waiting: () => say("a table that a migration changes is held by others"),
    gaveUp: () =>
      `A table that a migration changes was held by others for ${lockMs / 1000} s, as by a backup or a ` +
      "transaction that was left open: end it, then repeat",
  };
  const times = { brief: TABLE_LOCK_MS, long: lockMs };
  const applied: string[] = [];
  for (let more = state.kind === "behind"; more; ) {
    const known = await appliedMigrations(database);
    const next = nextOf(wanted, known);
    await patiently(() => buildIndexes(alone, next?.indexes ?? [], times), heldByOthers);
    await patiently(() => proveBounds(alone, next?.bounds ?? [], times), heldByOthers);
    const [, names] = await patiently(
      () => database.migrate.up(settings) as Promise<[number, string[]]>,
      heldByOthers,
    );
    applied.push(...names);
    more = names.length > 0;
  }
  return applied;
}

/** The migration that is applied next. */
function nextOf(wanted: readonly Migration[], known: readonly string[]): Migration | undefined {
  return wanted.find(({ name }) => !known.includes(name));
}

function settingsFor(wanted: readonly Migration[]) {
  return {
    tableName: "schema_migrations",
    // One of the next release may be there: what is borne was judged before.
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
  isWorthIt(error: unknown): boolean;
  waiting(error: unknown): void;
  gaveUp(error: unknown): string;
};

/** Tries until it succeeds, fails for another reason, or time is up. */
async function patiently<T>(work: () => Promise<T>, patience: Patience): Promise<T> {
  const giveUp = performance.now() + patience.ms;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!patience.isWorthIt(error)) throw error;
      if (performance.now() >= giveUp) throw new MigrationPutOff(patience.gaveUp(error), { cause: error });
      patience.waiting(error);
      await sleep(Math.min(PAUSE_MS, patience.ms));
    }
  }
}

type Say = (what: string) => void;

/**
 * Works while no other run does. The connection that holds the lock is kept for that long: a pool would close
 * it once nothing is asked of it.
 */
async function aloneHere<T>(
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
  await patiently(
    async () => {
      const { rows } = await alone.query<{ free: boolean }>(LOCK);
      if (rows[0]?.free !== true) throw held;
    },
    {
      ms: lockMs,
      isWorthIt: (error) => error === held,
      waiting: () => say("another `deputize migrate` works on this database"),
      gaveUp: () =>
        `Another \`deputize migrate\` has worked on this database for more than ${lockMs / 1000} s: wait for it, then repeat`,
    },
  );
}

/** Each sentence once. */
function createSaying(log: MigrateOptions["log"]): Say {
  const said = new Set<string>();
  return (what) => {
    if (!said.has(what)) log?.info(`waiting: ${what}`);
    said.add(what);
  };
}
