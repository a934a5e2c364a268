import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import type { Logger } from "../log.ts";
import type { Connection } from "./connection.ts";
import { createClient } from "./database.ts";

/** The server that accepts changes to the vault's database, as this process sees it. */
export type Primary = {
  /** Registers a connection, which ends when another server becomes the primary. */
  opened(connection: Connection): void;
  stop(): Promise<void>;
};

const EVERY_MS = 500;
const RETRY_MS = 100;
const CONNECT_MS = 1_000;
const ANSWER_MS = 900;

/** Cancels the change of an earlier attempt, which may still wait. */
const CANCEL = "select pg_cancel_backend(pid) from pg_stat_activity where pid = $1 and application_name = $2";

/**
 * The smallest change: a record in the write-ahead log without content. Postgres permits it in a transaction
 * that is read-only, as on a fenced primary.
 */
const SMALLEST_CHANGE = `
select case current_setting('transaction_read_only')
         when 'off' then pg_logical_emit_message(true, 'keyvault', '') end as change`;

/**
 * Makes the smallest change. Like every commit, it waits for the disk, and for the standby if replication is
 * synchronous. Rejects if the server accepts no changes.
 */
export async function makeSmallestChange(client: Pick<pg.Client, "query">): Promise<void> {
  const { rows } = await client.query<{ change: string | null }>(SMALLEST_CHANGE);
  if (rows[0]?.change == null) throw new Error("The database accepts no changes");
}

const NAME = "keyvault-primary";

/**
 * Makes a change every 500 ms on a connection of its own, and connects again if that fails. When it then
 * finds another server, it ends the connections to the former primary, which can be silent, or answer reads
 * with old data. Never throws. The API has the same watch, but the vault shares no code with it.
 */
export function watchPrimary(url: string, log: Logger): Primary {
  const connections = new Set<Connection>();
  const closing = new AbortController();
  let server: string | undefined;
  let former: Connection | undefined;

  /**
   * Returns whether a connection leads to a former primary. A connection that is not open yet does if a
   * primary was known before.
   */
  function isFormer(connection: Connection, found: string | undefined): boolean {
    return connection.server === undefined ? server !== undefined : connection.server !== found;
  }

  async function watchOnce(): Promise<void> {
    const earlier = [...connections];
    const client = createClient(url, { name: NAME, connectMs: CONNECT_MS, queryMs: ANSWER_MS });
    try {
      await client.connect();
      const processId = (former as { processID?: number } | undefined)?.processID;
      await client.query(CANCEL, [processId, NAME]);
      const found = client.server;
      if (server !== found) {
        if (server !== undefined) log.warn({ event: "database_primary_changed" });
        for (const each of earlier) if (isFormer(each, found)) each.abandon();
      }
      [server, former] = [found, client];
      do await makeSmallestChange(client);
      while (await passed(EVERY_MS));
      await client.end();
    } finally {
      client.abandon();
    }
  }

  async function watch(): Promise<void> {
    while (!closing.signal.aborted) {
      // The work of the vault reports why the database is away.
      await watchOnce().catch(() => {});
      await passed(RETRY_MS);
    }
  }

  function passed(ms: number): Promise<boolean> {
    return sleep(ms, true, { signal: closing.signal }).catch(() => false);
  }

  const watching = watch();
  return {
    opened(connection) {
      connections.add(connection);
      connection.once("end", () => connections.delete(connection));
    },
    async stop() {
      closing.abort();
      await watching;
    },
  };
}
