import type { Pool, PoolClient } from "pg";
import { afterAll, afterEach, beforeAll } from "vitest";
import { type Database, openDatabase, openPool } from "../../src/db/database.ts";
import { type DecisionOutcome, decideBatch } from "../../src/proofs/decide/decision.ts";
import type { DecisionItem } from "../../src/proofs/decide/decision_item.ts";
import { migratedDatabase, type TestDatabase } from "../support/postgres.ts";
import { until } from "../support/process.ts";
import type { Records } from "./records.ts";

/** A migrated database for decision tests, with helpers that read the results. */
export type DecisionWorld = {
  db: Database;
  pool: Pool;
  /** A statement of the pool waits for a locked row for at most `lockMs`. */
  openPool(name: string, options?: { max?: number; lockMs?: number }): Pool;
  decideOne(item: DecisionItem): Promise<DecisionOutcome | undefined>;
  balanceOf(records: Pick<Records, "accountId">): Promise<number | undefined>;
  countOf(table: "audit_events" | "ledger_postings", records: Pick<Records, "accountId">): Promise<number>;
  spentOf(records: Pick<Records, "connectionId">): Promise<number>;
  /** Runs a statement in a transaction that stays open and keeps its locks until `commit`. */
  hold(text: string, values: unknown[]): Promise<Held>;
  untilBlocked(): Promise<void>;
};

export type Held = { commit(): Promise<void> };

/** Creates a {@link DecisionWorld} before the first test in a file, and closes it after the last test. */
export function decisionWorld(): DecisionWorld {
  let database: TestDatabase;
  const pools: Pool[] = [];
  const open = new Set<PoolClient>();

  async function close(client: PoolClient, how: "commit" | "rollback"): Promise<void> {
    open.delete(client);
    await client.query(how);
    client.release();
  }

  const world = {
    openPool(name: string, options: { max?: number; lockMs?: number } = {}) {
      const pool = openPool({ url: database.url, name, ...options, onError: () => {} });
      pools.push(pool);
      return pool;
    },
    async decideOne(item: DecisionItem) {
      const [outcome] = await decideBatch(world.pool, [item]);
      return outcome;
    },
    async balanceOf({ accountId }: Pick<Records, "accountId">) {
      return (await world.db("balances").where({ account_id: accountId }).first())?.balance_micro_usd;
    },
    async countOf(table: "audit_events" | "ledger_postings", { accountId }: Pick<Records, "accountId">) {
      return (await world.db(table).where({ account_id: accountId })).length;
    },
    async spentOf({ connectionId }: Pick<Records, "connectionId">) {
      const text = "select from spent_challenges where connection_id = $1";
      return (await world.pool.query(text, [connectionId])).rowCount ?? 0;
    },
    async hold(text: string, values: unknown[]) {
      const client = await world.pool.connect();
      open.add(client);
      await client.query("begin");
      await client.query(text, values);
      return { commit: () => close(client, "commit") };
    },
    untilBlocked() {
      const text = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      return until(
        "a statement waits for a row",
        async () => ((await world.pool.query(text)).rowCount ?? 0) > 0,
      );
    },
  } as DecisionWorld;

  beforeAll(async () => {
    database = await migratedDatabase();
    world.db = openDatabase({ url: database.url, name: "test", onError: () => {} });
    world.pool = world.openPool("test", { max: 8 });
  });

  // An open transaction from a failed test would block later statements and the cleanup of the file.
  afterEach(async () => {
    await Promise.all([...open].map((client) => close(client, "rollback")));
  });

  afterAll(async () => {
    await Promise.all(pools.map((pool) => pool.end()));
    await world.db.destroy();
    await database.drop();
  });

  return world;
}
