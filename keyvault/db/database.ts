import knex, { type Knex } from "knex";
import pg from "pg";
import { VaultError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { Connection, OPTIONS, type Opened } from "./connection.ts";

/** Runs ordinary queries. The row types are in `rows.ts`. */
export type Database = Knex;

const CONNECT_TIMEOUT_MS = 3_000;
const QUERY_TIMEOUT_MS = 5_000;
const INT8 = 20;
const TIMESTAMPTZ = 1184;
const LAST_DATE = 8_640_000_000_000_000;

/**
 * Postgres' 64-bit integers become numbers, because this database has them only for numbers of audit records.
 * A time outside the range of `Date`, which only an altered row contains, becomes the last possible `Date`.
 * The row's code then does not match, but no query fails.
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

/**
 * A database error. `setting` names the setting with the database's URL if it is not `KEYVAULT_DATABASE_URL`.
 */
export type ErrorOfSetting = { setting?: string };

/**
 * Runs `work` with the database that a setting names. Adds the setting's name to any error that has none yet.
 */
export async function withSettingOnError<T>(setting: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error && !("setting" in error)) {
      Object.assign(error, { setting } satisfies ErrorOfSetting);
    }
    throw error;
  }
}

/** Opens the vault's database, and reconnects after a loss. Queries fail after `timeoutMs`. */
export function openDatabase(
  url: string,
  log: Logger,
  max = 4,
  timeoutMs: number = QUERY_TIMEOUT_MS,
  opened?: Opened,
): Database {
  const logText = (text: unknown): void => log.warn({ event: "database_trouble", text: String(text) });
  const database = knex({
    client: "pg",
    log: { warn: logText, error: logText, deprecate: logText, debug: () => {} },
    connection: {
      connectionString: url,
      application_name: "keyvault",
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: timeoutMs,
      opened,
      options: OPTIONS,
      keepAlive: true,
      types,
    } as Knex.PgConnectionConfig,
    pool: { min: 0, max },
    acquireConnectionTimeout: CONNECT_TIMEOUT_MS,
  });
  database.client.driver = { ...pg, Client: Connection };
  return database;
}

type ClientSettings = { name?: string; connectMs?: number; queryMs?: number; opened?: Opened | undefined };

/**
 * Returns a client that has not connected yet. Its queries fail after 5 s. Listen for `error`, and close it.
 */
export function createClient(url: string, settings: ClientSettings = {}): Connection {
  const { name = "keyvault-audit", connectMs = CONNECT_TIMEOUT_MS, queryMs = QUERY_TIMEOUT_MS } = settings;
  return new Connection({
    connectionString: url,
    application_name: name,
    connectionTimeoutMillis: connectMs,
    query_timeout: queryMs,
    ...(settings.opened && { opened: settings.opened }),
    options: OPTIONS,
    keepAlive: true,
    types,
  });
}

/** Runs a read of the database. Turns any database failure into `VaultError unavailable`. */
export async function available<T>(read: () => PromiseLike<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw new VaultError("unavailable", undefined, { cause: error });
  }
}
