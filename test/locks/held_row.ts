import { Pool, type PoolClient } from "pg";
import { afterAll, afterEach, beforeAll } from "vitest";
import type { TestApi } from "../support/api.ts";
import { until } from "../support/process.ts";

/** An SQL statement and its values. */
export type Sql = [text: string, ...values: unknown[]];

/** A transaction that holds a row or an advisory lock. */
export type HeldRow = {
  /** Resolves when `count` statements wait for this transaction, or for each other. */
  blocks(count: number): Promise<void>;
  run(...sql: Sql): Promise<void>;
  commit(): Promise<void>;
};

const WAITING = `select from pg_stat_activity
  where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`;

/** Returns a function that begins such transactions. Those that a failed test left open are rolled back. */
export function rowHolder(api: TestApi): (...sql: Sql) => Promise<HeldRow> {
  let pool: Pool;
  const open = new Set<PoolClient>();
  beforeAll(() => {
    pool = new Pool({ connectionString: api.databaseUrl, max: 4 });
  });
  afterEach(() => {
    for (const client of open) client.release(true);
    open.clear();
  });
  afterAll(() => pool.end());

  return async (text, ...values) => {
    const client = await pool.connect();
    open.add(client);
    await client.query("begin");
    await client.query(text, values);
    return {
      blocks: (count) =>
        until(`${count} statements wait for the held row`, async () => {
          const { rowCount } = await pool.query(WAITING);
          return rowCount === count;
        }),
      async run(more, ...given) {
        await client.query(more, given);
      },
      async commit() {
        await client.query("commit");
        open.delete(client);
        client.release();
      },
    };
  };
}
