import type { Pool } from "pg";
import { afterAll, beforeAll } from "vitest";
import { createCreditSources } from "../../src/accounts/ledger/credit_source.ts";
import { type Database, type DatabaseSettings, openDatabase, openPool } from "../../src/db/database.ts";
import type { BatchPlace } from "../../src/proofs/admission/batch.ts";
import { type BatchOutcome, decideBatch } from "../../src/proofs/decide/decision.ts";
import type { DecisionItem } from "../../src/proofs/decide/decision_item.ts";
import { type HeldRows, heldRows } from "../support/held_rows.ts";
import { migratedDatabase, serviceUrls, type TestDatabase } from "../support/postgres.ts";
import type { Records } from "./records.ts";

/** A migrated database for decision tests, with helpers that read the results. */
export type DecisionWorld = HeldRows & {
  db: Database;
  pool: Pool;
  /** For work on whole months. Each of its connections has its own session. */
  months: Pool;
  /** A statement of the pool waits for a locked row for at most `lockMs`. */
  openPool(name: string, options?: { max?: number; lockMs?: number }): Pool;
  decideOne(item: DecisionItem): Promise<BatchOutcome | undefined>;
  balanceOf(records: Pick<Records, "accountId">): Promise<number | undefined>;
  countOf(table: "audit_events" | "ledger_postings", records: Pick<Records, "accountId">): Promise<number>;
  spentOf(records: Pick<Records, "connectionId">): Promise<number>;
};

/** Returns a place for batches that remembers no source of credit yet. */
export const placeOf = (pool: Pool): BatchPlace => ({ pool, sources: createCreditSources() });

/** Creates a {@link DecisionWorld} before the first test in a file, and closes it after the last test. */
export function decisionWorld(): DecisionWorld {
  let database: TestDatabase;
  const pools: Pool[] = [];
  const open = (settings: Omit<DatabaseSettings, "onError">): Pool => {
    const pool = openPool({ ...settings, onError: () => {} });
    pools.push(pool);
    return pool;
  };
  const world = {
    openPool(name: string, options: { max?: number; lockMs?: number } = {}) {
      return open({ url: serviceUrls(database.url).DATABASE_URL, name, ...options });
    },
    async decideOne(item: DecisionItem) {
      const [outcome] = await decideBatch(world.pool, [item]);
      return outcome;
    },
    async balanceOf({ accountId }: Pick<Records, "accountId">) {
      return (await world.db("account_credit").where({ account_id: accountId }).first())?.balance_micro_usd;
    },
    async countOf(table: "audit_events" | "ledger_postings", { accountId }: Pick<Records, "accountId">) {
      return (await world.db(table).where({ account_id: accountId })).length;
    },
    async spentOf({ connectionId }: Pick<Records, "connectionId">) {
      const text = "select from spent_challenges where connection_id = $1";
      return (await world.pool.query(text, [connectionId])).rowCount ?? 0;
    },
    ...heldRows(() => world.pool),
  } as DecisionWorld;

  beforeAll(async () => {
    database = await migratedDatabase();
    world.db = openDatabase({ url: serviceUrls(database.url).DATABASE_URL, name: "test", onError: () => {} });
    world.pool = world.openPool("test", { max: 8 });
    world.months = open({ url: database.url, name: "months", max: 1 });
  });

  afterAll(async () => {
    await Promise.all(pools.map((pool) => pool.end()));
    await world.db.destroy();
    await database.drop();
  });

  return world;
}
