import type { Socket } from "node:net";
import knex, { type Knex } from "knex";
import pg from "pg";
import { unixSeconds } from "../clock.ts";

/** A database for ordinary queries, typed by `tables.ts`. */
export type Database = Knex;
/** A transaction on the same tables. */
export type Transaction = Knex.Transaction;

/** 64-bit integers of Postgres are returned as numbers. Every value stored here is far within ±(2^53−1). */
const INT8 = 20;
const types = {
  getTypeParser(oid: number, format?: "text" | "binary") {
    if (oid === INT8 && format !== "binary") return Number;
    return pg.types.getTypeParser(oid, format as "text");
  },
};

/** Settings of at most `max` database connections, which the server's activity view shows under `name`. */
export type DatabaseSettings = {
  url: string;
  name: string;
  max?: number;
  /** The server ends a transaction that is idle for this long, so that a frozen process keeps no locks. */
  idleTransactionMs?: number;
  /** Milliseconds after which the server cancels a statement. Default: never. Set it to answer requests. */
  statementMs?: number;
  /** Milliseconds after which the server stops waiting for a locked row or table. Default: never. */
  lockMs?: number;
  /**
   * Milliseconds without data from the server, while a query runs, after which the connection is closed. Must
   * be longer than any statement takes. Default: never.
   */
  silenceMs?: number;
  onError: (error: Error) => void;
};

const IDLE_TRANSACTION_MS = 30_000;
/** Milliseconds without traffic after which TCP probes whether the server still exists. */
const PROBE_AFTER_MS = 10_000;
/**
 * The server considers every join order for up to this many tables. With the default of 8, planning one query
 * took longer than the rest of the call. Our statements begin with the filtered table and continue by primary
 * keys.
 */
const TABLES_WEIGHED = 4;
/** Milliseconds within which a server must accept a connection. A query waits longer than this for one. */
const CONNECT_MS = 4_000;

/**
 * Opens a database for ordinary queries. Passes lost idle connections to `onError`; the next query
 * reconnects.
 */
export function openDatabase(settings: DatabaseSettings): Database {
  const { url, name, max = 8, idleTransactionMs = IDLE_TRANSACTION_MS, onError } = settings;
  const { statementMs = 0, lockMs = 0, silenceMs } = settings;
  const database = knex({
    client: "pg",
    connection: {
      connectionString: url,
      application_name: name,
      types,
      keepAlive: true,
      keepAliveInitialDelayMillis: PROBE_AFTER_MS,
      connectionTimeoutMillis: CONNECT_MS,
      idle_in_transaction_session_timeout: idleTransactionMs,
      statement_timeout: statementMs,
      lock_timeout: lockMs,
      options: `-c join_collapse_limit=${TABLES_WEIGHED}`,
    } as Knex.PgConnectionConfig,
    pool: {
      min: 0,
      max,
      afterCreate(client: pg.Client, done: (error: null, client: pg.Client) => void) {
        giveUpSilent(client, silenceMs);
        done(null, client);
      },
    },
    acquireConnectionTimeout: 5_000,
    // With `false`, an error message shows the statement with its placeholders, never the bound values.
    compileSqlOnError: false,
    log: { warn: report(onError), error: report(onError) },
  });
  database.client.pool.on("error", onError);
  return database;
}

/**
 * Passes the library's own messages to `onError` instead of the console. Skips a query's failure to get a
 * connection, because the query itself reports it.
 */
function report(onError: (error: Error) => void): (notice: unknown) => void {
  return (notice) => {
    if (typeof notice === "string" && notice.startsWith("Acquire connection error")) return;
    onError(notice instanceof Error ? notice : new Error(String(notice)));
  };
}

/** Opens a pool without a query builder. A lost connection is never fatal. */
export function openPool(settings: DatabaseSettings): pg.Pool {
  const { url, name, max = 4, idleTransactionMs = IDLE_TRANSACTION_MS, onError } = settings;
  const { statementMs = 0, lockMs = 0, silenceMs } = settings;
  const pool = new pg.Pool({
    connectionString: url,
    application_name: name,
    max,
    connectionTimeoutMillis: 5_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: PROBE_AFTER_MS,
    idle_in_transaction_session_timeout: idleTransactionMs,
    statement_timeout: statementMs,
    lock_timeout: lockMs,
    types: types as pg.CustomTypesConfig,
  });
  pool.on("error", onError);
  // If a connection is lost while a caller uses it, the caller's next query reports the loss. Without a
  // listener, the error would end the process.
  pool.on("connect", (client) => {
    client.on("error", () => {});
    giveUpSilent(client as pg.Client, silenceMs);
  });
  return pool;
}

/**
 * Closes a connection if the server sends nothing for `silenceMs` while a query runs. The query then fails.
 * TCP alone notices a vanished machine only after a quarter of an hour.
 */
function giveUpSilent(client: pg.Client, silenceMs: number | undefined): void {
  if (silenceMs === undefined) return;
  const stream = client.connection.stream as Socket;
  stream.setTimeout(silenceMs, () => {
    const owesNothing = (client as pg.Client & { readyForQuery?: boolean }).readyForQuery === true;
    if (!owesNothing) stream.destroy(new Error("Connection terminated: the server is silent"));
  });
}

/**
 * Restricts a query to certificates that have not expired. A certificate is valid until the end of its last
 * second, because the protocol counts whole seconds.
 */
export function notExpired<Q extends Knex.QueryBuilder>(query: Q, now: Date): Q {
  const second = lastSecond(now);
  query.andWhere((either) => either.whereNull("expires_at").orWhere("expires_at", ">=", second));
  return query;
}

/** Returns the start of the current second. Anything with an earlier expiry time has expired by `now`. */
export function lastSecond(now: Date): Date {
  return new Date(unixSeconds(now) * 1000);
}

/** Returns a `like` pattern that matches strings containing `text` literally. */
export function containing(text: string): string {
  return `%${text.replaceAll(/[\\%_]/g, "\\$&")}%`;
}
