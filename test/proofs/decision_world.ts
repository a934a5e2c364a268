import type { Pool, PoolClient } from "pg";
import { afterAll, afterEach, beforeAll } from "vitest";
import { type Database, openDatabase, openPool } from "../../src/db/database.ts";
import { type DecisionOutcome, decideBatch } from "../../src/proofs/decide/decision.ts";
import type { DecisionItem } from "../../src/proofs/decide/decision_item.ts";
import { migratedDatabase, type TestDatabase } from "../support/postgres.ts";
import { until } from "../support/process.ts";
import type { Records } from "./records.ts";

/** A migrated database for decisions, and helpers that read the results. */
export type DecisionWorld = {
  db: Database;
  pool: Pool;
  /**
   * Opens a pool whose statements give up a locked row after `lockMs`. It closes at the end of the test file.
   */
  openPool(name: string, options?: { max?: number; lockMs?: number }): Pool;
  decideOne(item: DecisionItem): Promise<DecisionOutcome | undefined>;
  balanceOf(records: Pick<Records, "accountId">): Promise<number | undefined>;
  countOf(table: "audit_events" | "ledger_postings", records: Pick<Records, "accountId">): Promise<number>;
  spentOf(records: Pick<Records, "connectionId">): Promise<number>;
  /** Runs a statement in a transaction that stays open, and so keeps its locks until `commit`. */
  hold(text: string, values: unknown[]): Promise<Held>;
  /** Waits until a statement of this database waits for a locked row. */
  untilBlocked(): Promise<void>;
};

/** An open transaction. */
export type Held = { commit(): Promise<void> };

/** Creates such a world before the first test of a file, and closes it after the last. */
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

  // A transaction that a failed test left open would block the statements after it, and the end of the file.
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
