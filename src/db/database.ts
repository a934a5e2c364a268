import knex, { type Knex } from "knex";
import pg from "pg";
import { unixSeconds } from "../clock.ts";
import { API_CONNECTIONS } from "../input/database_url.ts";
import { Connection, type ConnectionSettings, connectionConfig } from "./connection.ts";

/** A database for ordinary queries, typed by `tables.ts`. */
export type Database = Knex;
/** A transaction on the same tables. */
export type Transaction = Knex.Transaction;

/** Milliseconds for which a caller waits for a connection. */
const WAIT_MS = 5_000;

/** Settings of at most `max` database connections. `onError` receives the loss of a connection. */
export type DatabaseSettings = ConnectionSettings & { max?: number; onError: (error: Error) => void };

/** Sizes of the API's pools. Two more connections listen for changed API keys and watch the primary. */
const API_POOLS = { api: 8, decisions: 4, patient: 2, rated: 4, installation: 4, months: 1 };
type ApiPoolSizes = typeof API_POOLS;

/**
 * Divides the connections of an API process among its pools, in the proportion of their default sizes. Leaves
 * one each for the connection that listens and the one that watches the primary. `total` must be at least 12.
 */
export function apiPoolSizes(total: number): ApiPoolSizes {
  const share = (size: number) => Math.max(1, Math.floor((size * (total - 3)) / (API_CONNECTIONS - 3)));
  const [decisions, patient] = [share(API_POOLS.decisions), share(API_POOLS.patient)];
  const [rated, installation] = [share(API_POOLS.rated), share(API_POOLS.installation)];
  const others = { decisions, patient, rated, installation, months: API_POOLS.months };
  return { ...others, api: total - 3 - decisions - patient - rated - installation };
}

/**
 * Opens a database for ordinary queries. Passes lost idle connections to `onError`; the next query
 * reconnects.
 */
export function openDatabase(settings: DatabaseSettings): Database {
  const { max = 8, onError } = settings;
  const database = knex({
    client: "pg",
    connection: connectionConfig(settings) as Knex.PgConnectionConfig,
    pool: { min: 0, max },
    acquireConnectionTimeout: WAIT_MS,
    // With `false`, an error message shows the statement with its placeholders, never the bound values.
    compileSqlOnError: false,
    log: { warn: report(onError), error: report(onError) },
  });
  database.client.driver = { ...pg, Client: Connection };
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
  const { max = 4, onError } = settings;
  const config = { ...connectionConfig(settings), connectionTimeoutMillis: WAIT_MS };
  const pool = new pg.Pool({ ...config, max, Client: Connection });
  pool.on("error", onError);
  return pool;
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

/**
 * Returns SQL for the platform of a connection with this alias, whether it is an own connection or a
 * customer's. A look-up that compares `platform_id` itself finds own connections only.
 */
export function platformOf(connection: string): string {
  return `coalesce(${connection}.platform_id, ${connection}.product_id)`;
}

/**
 * Returns SQL for the ceiling of a certificate with this alias, or null if only its own scopes limit it. The
 * column `ceiling_scope` of a restricted certificate is empty, because processes of the version before would
 * ignore the restriction.
 */
export function ceilingOf(certificate: string): string {
  const isRestricted = `num_nonnulls(${certificate}.only_at, ${certificate}.only_action) > 0`;
  return `case when ${isRestricted} then ${certificate}.restricted_ceiling else ${certificate}.ceiling_scope end`;
}

/** Returns SQL for the name of the account with this alias, or null if it has none. */
export function accountNameOf(account: string): string {
  const person = `concat_ws(' ', ${account}.first_name, ${account}.last_name)`;
  return `coalesce(${account}.organization_name, nullif(${person}, ''))`;
}

/** Returns the start of the current second. Anything with an earlier expiry time has expired by `now`. */
export function lastSecond(now: Date): Date {
  return new Date(unixSeconds(now) * 1000);
}

/**
 * Returns a condition on rows whose column contains the text, in upper or lower case. In a database with a
 * Turkish collation, the lower case of `I` is not `i`, so ASCII letters are also compared without one.
 */
export function containsText(db: Database, column: string, text: string): Knex.Raw {
  const condition = '(:column: ilike :pattern or :column: collate "C" ilike :pattern)';
  return db.raw(condition, { column, pattern: containing(text) });
}

/** Returns a `like` pattern that matches strings containing `text` literally. */
export function containing(text: string): string {
  return `%${text.replaceAll(/[\\%_]/g, "\\$&")}%`;
}
