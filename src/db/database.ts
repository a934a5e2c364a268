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

/**
 * Settings of the database connection. Each of at most `max` connections has the name `name` in the server's
 * activity view.
 */
export type DatabaseSettings = {
  url: string;
  name: string;
  max?: number;
  /**
   * The server ends a transaction that is idle for this long. Otherwise a frozen process would block others
   * from its rows.
   */
  idleTransactionMs?: number;
  /**
   * The server cancels a statement after this long. Default: never. Set it for statements that answer
   * requests.
   */
  statementMs?: number;
  /** The server stops waiting for a row or table that others have locked after this long. Default: never. */
  lockMs?: number;
  /**
   * A connection is closed if its server owes an answer and is silent for this long. It must be longer than
   * any statement takes. Default: never.
   */
  silenceMs?: number;
  onError: (error: Error) => void;
};

const IDLE_TRANSACTION_MS = 30_000;
/** TCP probes idle connections after this long, because a server that vanished sends nothing. */
const PROBE_AFTER_MS = 10_000;
/**
 * The number of joined tables up to which the server considers every order of joining. Statements here begin
 * with the filtered table and continue by primary keys. With the server's default of 8, planning a list of
 * requests took longer than everything else about it.
 */
const TABLES_WEIGHED = 4;
/**
 * The maximum time until a server accepts a connection. It is shorter than the time for which a query waits
 * for one.
 */
const CONNECT_MS = 4_000;

/**
 * Opens a database for ordinary queries. Reports a lost idle connection to `onError`, which is never fatal:
 * the next query reconnects.
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
    // With `false`, an error's text shows the statement with its placeholders, never the bound values.
    compileSqlOnError: false,
    log: { warn: report(onError), error: report(onError) },
  });
  database.client.pool.on("error", onError);
  return database;
}

/**
 * Sends the library's own messages to `onError` instead of the console. Skips a query's failure to get a
 * connection, because the query itself reports it.
 */
function report(onError: (error: Error) => void): (notice: unknown) => void {
  return (notice) => {
    if (typeof notice === "string" && notice.startsWith("Acquire connection error")) return;
    onError(notice instanceof Error ? notice : new Error(String(notice)));
  };
}

/**
 * Opens a plain pool for the hot statement and for clients with a single purpose. A lost connection is never
 * fatal.
 */
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
  // If a connection is lost while a caller uses it, the caller's next query reports it. Without a listener,
  // the error would end the process.
  pool.on("connect", (client) => {
    client.on("error", () => {});
    giveUpSilent(client as pg.Client, silenceMs);
  });
  return pool;
}

/**
 * Closes a connection whose server owes an answer and is silent. The query then fails, and the pool opens
 * another connection. TCP alone waits a quarter of an hour for a machine that vanished.
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
 * Limits a query of certificates to those that have not expired. A certificate is valid during the whole of
 * its last second, because the protocol counts whole seconds.
 */
export function notExpired<Q extends Knex.QueryBuilder>(query: Q, now: Date): Q {
  const second = lastSecond(now);
  query.andWhere((either) => either.whereNull("expires_at").orWhere("expires_at", ">=", second));
  return query;
}

/** Returns the start of the current second. Everything that ended before it has expired by `now`. */
export function lastSecond(now: Date): Date {
  return new Date(unixSeconds(now) * 1000);
}

/** Returns a `like` pattern for texts that contain this text literally. */
export function containing(text: string): string {
  return `%${text.replaceAll(/[\\%_]/g, "\\$&")}%`;
}
