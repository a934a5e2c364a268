import type { Pool, PoolClient } from "pg";
import { afterEach } from "vitest";
import type { Database } from "../../src/db/database.ts";
import { until } from "./process.ts";

/** A transaction that holds a row or an advisory lock until it ends. */
export type HeldRow = {
  run(text: string, values: unknown[]): Promise<void>;
  commit(): Promise<void>;
};

/** Functions that hold rows, so that the statements of a test wait for them. */
export type HeldRows = {
  /** Runs a statement in a transaction that stays open. */
  hold(text: string, values: unknown[]): Promise<HeldRow>;
  /** Resolves when at least `count` statements in the database wait for another transaction. Default: 1. */
  untilBlocked(count?: number): Promise<void>;
};

const BLOCKED = `select from pg_stat_activity
  where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`;

/** Resolves when at least `count` statements in the database wait for another transaction. */
export function untilBlockedIn(database: Pick<Database, "raw">, count = 1): Promise<void> {
  return until(
    `${count} statements wait for a row`,
    async () => (await database.raw(BLOCKED)).rowCount >= count,
  );
}

/** Returns these functions for a database. After each test, rolls back transactions that are still open. */
export function heldRows(pool: () => Pool): HeldRows {
  const open = new Set<PoolClient>();

  async function close(client: PoolClient, how: "commit" | "rollback"): Promise<void> {
    open.delete(client);
    await client.query(how);
    client.release();
  }

  // An open transaction of a failed test would block later statements and the cleanup of the file.
  afterEach(async () => {
    await Promise.all([...open].map((client) => close(client, "rollback")));
  });

  return {
    async hold(text, values) {
      const client = await pool().connect();
      open.add(client);
      await client.query("begin");
      await client.query(text, values);
      return {
        async run(more, given) {
          await client.query(more, given);
        },
        commit: () => close(client, "commit"),
      };
    },
    untilBlocked: (count = 1) =>
      until(
        `${count} statements wait for a row`,
        async () => ((await pool().query(BLOCKED)).rowCount ?? 0) >= count,
      ),
  };
}
