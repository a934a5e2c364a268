import type { Pool } from "pg";
import type { ConnectionSettings } from "../db/connection.ts";
import { apiPoolSizes, type Database, openDatabase, openPool } from "../db/database.ts";
import { readSchemaState } from "../db/migrate.ts";
import { watchPrimary } from "../db/primary.ts";
import { type DatabaseUrls, directUrlOf } from "../input/database_url.ts";
import type { Logger } from "../log.ts";
import { PATIENT_LOCK_MS, QUICK_LOCK_MS } from "./admission/batch.ts";

/** Pools for decisions and upkeep, each with limits of its own. */
export type ApiPools = Record<"decisions" | "patient" | "rated" | "months", Pool>;

/** All connections of an API process, except those that listen or read the state of the installation. */
export type ApiConnections = {
  db: Database;
  pools: ApiPools;
  /** Settings of connections that need a session. */
  direct: Pick<ConnectionSettings, "url" | "opened"> & { onError: (error: Error) => void };
  /** Registers further connections, so that they also end when another server becomes the primary. */
  opened: ConnectionSettings["opened"];
  sizes: ReturnType<typeof apiPoolSizes>;
  /** Returns whether the database accepts changes and has a schema that this version supports. */
  isReady(): Promise<boolean>;
  close(): Promise<void>;
};

/** Statement timeout. It is below a call's deadline, so callers learn whether a statement took effect. */
const STATEMENT_MS = 10_000;
/** `silenceMs` is for a database that does not respond. The database applies the statement timeout itself. */
const LIMITS = { statementMs: STATEMENT_MS, silenceMs: STATEMENT_MS + 2_000 };
/** Limit for a silent database during work on whole months. Counting a month may take minutes. */
const MONTHS_SILENCE_MS = 30 * 60_000;

/** Opens the API's connections, and starts to watch which server is the primary. */
export function openConnections(
  urls: DatabaseUrls & { DATABASE_POOL_SIZE: number },
  log: Logger,
): ApiConnections {
  const { DATABASE_URL: url } = urls;
  const directUrl = directUrlOf(urls);
  const primary = watchPrimary({ url: directUrl, log });
  const onError = (error: Error) => log.warn({ err: error }, "database connection lost");
  const common = { opened: primary.opened, onError };
  const pooled = { ...common, ...LIMITS, url, keepsSession: directUrl === url };
  const direct = { ...common, url: directUrl, keepsSession: true };
  const sizes = apiPoolSizes(urls.DATABASE_POOL_SIZE);
  const db = openDatabase({ ...pooled, name: "deputize-api", max: sizes.api });
  const open = (name: string, max: number, lockMs: number) => openPool({ ...pooled, name, max, lockMs });
  const pools = {
    decisions: open("deputize-decisions", sizes.decisions, QUICK_LOCK_MS),
    patient: open("deputize-patient", sizes.patient, PATIENT_LOCK_MS),
    rated: open("deputize-rates", sizes.rated, PATIENT_LOCK_MS),
    months: openPool({ ...direct, name: "deputize-months", max: sizes.months, silenceMs: MONTHS_SILENCE_MS }),
  };
  return {
    db,
    pools,
    direct,
    opened: primary.opened,
    sizes,
    isReady: async () => (await primary.isWritable()) && (await readSchemaState(db)).kind === "usable",
    async close() {
      await primary.stop();
      await Promise.all([db.destroy(), ...Object.values(pools).map((pool) => pool.end())]);
    },
  };
}
