import type { Socket } from "node:net";
import knex, { type Knex } from "knex";
import pg from "pg";
import { unixSeconds } from "../clock.ts";

/** Ordinary queries, typed by `tables.ts`. */
export type Database = Knex;
/** A transaction on the same tables. */
export type Transaction = Knex.Transaction;

/** Postgres' 64-bit integers are read as numbers: every one kept here stays far inside ±(2^53−1). */
const INT8 = 20;
const types = {
  getTypeParser(oid: number, format?: "text" | "binary") {
    if (oid === INT8 && format !== "binary") return Number;
    return pg.types.getTypeParser(oid, format as "text");
  },
};

/** How to reach the database. `max` connections, each named `name` in the server's activity view. */
export type DatabaseSettings = {
  url: string;
  name: string;
  max?: number;
  /**
   * The server ends a transaction left idle this long: a frozen process must not keep others from its rows.
   */
  idleTransactionMs?: number;
  /**
   * The server gives a statement up after this long. Default: never; what answers calls should have an end.
   */
  statementMs?: number;
  /** The server gives up waiting for a row or table that others hold after this long. Default: never. */
  lockMs?: number;
  /**
   * A connection is given up when its server has been silent for this long while it owes an answer: longer
   * than any statement takes. Default: never.
   */
  silenceMs?: number;
  onError: (error: Error) => void;
};

const IDLE_TRANSACTION_MS = 30_000;
/** Idle connections are probed after this long: a server that has vanished says nothing of its end. */
const PROBE_AFTER_MS = 10_000;
/**
 * Of how many tables at a time the server weighs every order of joining. Statements here begin with the table
 * that is filtered and go on by primary keys: at the server's own 8, planning a list of requests took longer
 * than all else about it.
 */
const TABLES_WEIGHED = 4;
/** In which a server has to greet; below the time that a query waits for a connection. */
const CONNECT_MS = 4_000;

/**
 * Opens a database for ordinary queries. A lost idle connection is reported, never fatal: the next query
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
    // An error's text then shows the statement with its placeholders, never the values bound to them.
    compileSqlOnError: false,
    log: { warn: report(onError), error: report(onError) },
  });
  database.client.pool.on("error", onError);
  return database;
}

/**
 * The library's own notices go where errors go, not to the console. What a query found no connection for is
 * its own error.
 */
function report(onError: (error: Error) => void): (notice: unknown) => void {
  return (notice) => {
    if (typeof notice === "string" && notice.startsWith("Acquire connection error")) return;
    onError(notice instanceof Error ? notice : new Error(String(notice)));
  };
}

/** Opens a plain pool for the hot statement and for single-purpose clients. No lost connection is fatal. */
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
  // A connection that is lost while a caller has it: the caller's next query says so. Without a listener it
  // would end the process.
  pool.on("connect", (client) => {
    client.on("error", () => {});
    giveUpSilent(client as pg.Client, silenceMs);
  });
  return pool;
}

/**
 * Ends a connection whose server owes an answer and is silent, so that the query fails and the pool makes
 * another one. TCP by itself waits a quarter of an hour for a machine that has vanished.
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
 * Narrows a query of certificates to those whose end has not passed; they hold in the whole of their last
 * second, as the protocol counts time.
 */
export function notExpired<Q extends Knex.QueryBuilder>(query: Q, now: Date): Q {
  const second = lastSecond(now);
  query.andWhere((either) => either.whereNull("expires_at").orWhere("expires_at", ">=", second));
  return query;
}

/** What ended before this moment has expired by `now`. */
export function lastSecond(now: Date): Date {
  return new Date(unixSeconds(now) * 1000);
}

/** The pattern, for `like`, of texts that contain this one as it is written. */
export function containing(text: string): string {
  return `%${text.replaceAll(/[\\%_]/g, "\\$&")}%`;
}
