import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "../log.ts";
import { type Connection, openConnection, ReadOnlyServer } from "./connection.ts";

/** The server that accepts changes to the database, as this process sees it. */
export type Primary = {
  /** Registers a connection, which ends when another server becomes the primary. */
  opened(connection: Connection): void;
  /** Returns whether the database has accepted a change within the last 3 seconds. */
  isWritable(): Promise<boolean>;
  stop(): Promise<void>;
};

const EVERY_MS = 500;
const RETRY_MS = 100;
const CONNECT_MS = 1_000;
/** Milliseconds within which the server must answer. A commit can wait for ever for a standby. */
const ANSWER_MS = 900;
const FRESH_MS = 3_000;

/** Cancels the change of an earlier attempt, which may still wait. */
const CANCEL = "select pg_cancel_backend(pid) from pg_stat_activity where pid = $1 and application_name = $2";

/**
 * The smallest change: a record in the write-ahead log without content. Like every commit, it waits for the
 * disk, and for the standby if replication is synchronous.
 */
const CHANGE = `
select case current_setting('transaction_read_only')
         when 'off' then pg_logical_emit_message(true, 'deputize', '') end as change`;

const NAME = "deputize-primary";

/**
 * Makes a change every 500 ms on a connection of its own, and connects again if that fails. When it then
 * finds another server, it ends the connections to the former primary, which can be silent, or answer reads
 * with old data. Never throws.
 */
export function watchPrimary({ url, log }: { url: string; log: Logger }): Primary {
  const connections = new Set<Connection>();
  const closing = new AbortController();
  const tried = Promise.withResolvers<void>();
  /** When former primaries started. A pooler may still lead to them. */
  const formers = new Set<string>();
  let server: string | undefined;
  let former: Connection | undefined;
  let changedAt = Number.NEGATIVE_INFINITY;
  let isLost = false;

  /** If the client's server is another one than before, ends the connections in `earlier` to others. */
  function endFormer({ server: found = "" }: Connection, earlier: readonly Connection[]): void {
    if (server === found) return;
    if (server !== undefined) {
      log.warn("another database server is the primary: connecting again");
      formers.add(server);
    }
    formers.delete(found);
    for (const each of earlier) {
      if (isFormer(each, found)) each.abandon("another server is the primary");
    }
    server = found;
  }

  /**
   * Returns whether a connection leads to a former primary. A connection that is not open yet does if a
   * primary was known before.
   */
  function isFormer(connection: Connection, found: string): boolean {
    return connection.server === undefined ? server !== undefined : connection.server !== found;
  }

  async function change(client: Connection): Promise<void> {
    const { rows } = await client.query<{ change: string | null }>(CHANGE);
    if (rows[0]?.change == null) throw new ReadOnlyServer("transactions are read-only");
    changedAt = performance.now();
    tried.resolve();
    if (isLost) log.info("the database accepts changes again");
    isLost = false;
  }

  async function watchOnce(): Promise<void> {
    const earlier = [...connections];
    const limits = { connectMs: CONNECT_MS, queryMs: ANSWER_MS };
    const client = openConnection({ url, name: NAME, keepsSession: true, ...limits });
    try {
      await client.connect();
      const processId = (former as { processID?: number } | undefined)?.processID;
      await client.query(CANCEL, [processId, NAME]);
      endFormer(client, earlier);
      former = client;
      do await change(client);
      while (await passed(EVERY_MS));
      await client.end();
    } finally {
      client.abandon("the watch of the primary has ended");
    }
  }

  async function watch(): Promise<void> {
    while (!closing.signal.aborted) {
      try {
        await watchOnce();
      } catch (error) {
        if (!isLost) log.warn({ err: error }, "the database accepts no changes");
        isLost = true;
        tried.resolve();
      }
      await passed(RETRY_MS);
    }
  }

  function passed(ms: number): Promise<boolean> {
    return sleep(ms, true, { signal: closing.signal }).catch(() => false);
  }

  const watching = watch();
  return {
    opened(connection) {
      connection.isFormer = (started) => formers.has(started);
      connections.add(connection);
      connection.once("end", () => connections.delete(connection));
    },
    async isWritable() {
      await tried.promise;
      return performance.now() - changedAt < FRESH_MS;
    },
    async stop() {
      closing.abort();
      await watching;
    },
  };
}
