import knex, { type Knex } from "knex";
import pg from "pg";
import { VaultError } from "../errors.ts";
import type { Logger } from "../log.ts";

/** Ordinary queries, typed by `rows.ts`. */
export type Database = Knex;

const CONNECT_TIMEOUT_MS = 3_000;
const QUERY_TIMEOUT_MS = 5_000;
const INT8 = 20;
const TIMESTAMPTZ = 1184;
const LAST_DATE = 8_640_000_000_000_000;

/**
 * Postgres' 64-bit integers are read as numbers: the only ones kept here count audit records. A time that no
 * `Date` holds, which only an altered row has, is read as the last one that there is, so that its code does
 * not hold and nothing else fails by it.
 */
const types = {
  getTypeParser(oid: number, format?: "text" | "binary") {
    if (oid === INT8 && format !== "binary") return Number;
    if (oid === TIMESTAMPTZ && format !== "binary") return readTime;
    return pg.types.getTypeParser(oid, format as "text");
  },
} as pg.CustomTypesConfig;

function readTime(text: string): Date {
  const time: unknown = pg.types.getTypeParser(TIMESTAMPTZ, "text")(text);
  return time instanceof Date && !Number.isNaN(time.getTime()) ? time : new Date(LAST_DATE);
}

/** An error of a database, with the setting whose URL led there when that is not `KEYVAULT_DATABASE_URL`. */
export type BlamedError = { setting?: string };

/**
 * Does something with the database of a setting, and puts that setting's name on an error unless another
 * one's is on it.
 */
export async function blaming<T>(setting: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error && !("setting" in error)) {
      Object.assign(error, { setting } satisfies BlamedError);
    }
    throw error;
  }
}

/**
 * Opens the vault's database. A lost connection is replaced by the next query; nothing is fatal. Queries that
 * take longer than `timeoutMs` fail.
 */
export function openDatabase(
  url: string,
  log: Logger,
  max = 4,
  timeoutMs: number = QUERY_TIMEOUT_MS,
): Database {
  const say = (text: unknown): void => log.warn({ event: "database_trouble", text: String(text) });
  return knex({
    client: "pg",
    log: { warn: say, error: say, deprecate: say, debug: () => {} },
    connection: {
      connectionString: url,
      application_name: "keyvault",
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: timeoutMs,
      types,
    } as Knex.PgConnectionConfig,
    pool: { min: 0, max },
    acquireConnectionTimeout: CONNECT_TIMEOUT_MS,
  });
}

/**
 * A connection of its own, not yet connected; queries that take longer than 5 s fail. The caller listens for
 * `error` and ends it.
 */
export function createClient(url: string): pg.Client {
  return new pg.Client({
    connectionString: url,
    application_name: "keyvault-audit",
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    keepAlive: true,
    types,
  });
}

/** Runs a read; any failure of the database becomes `VaultError unavailable`. */
export async function available<T>(read: () => PromiseLike<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw new VaultError("unavailable", undefined, { cause: error });
  }
}
