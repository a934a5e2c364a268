import { setTimeout as sleep } from "node:timers/promises";
import { machineTime } from "../../clock.ts";
import {
  type FollowedClock,
  followClock,
  type Reading,
  showClockOffset,
} from "../../concurrency/followed_clock.ts";
import type { DatabaseUrls } from "../../input/database_url.ts";
import type { Logger } from "../../log.ts";
import type { Metrics } from "../../metrics.ts";
import { openConnection } from "../connection.ts";
import { outageReason } from "../errors.ts";
import { waitForSchema } from "../wait_for_schema.ts";

const EVERY_MS = 60_000;
const RETRY_MS = 500;
/** Answers of one reading. The fastest one counts. */
const ANSWERS = 3;
const LIMIT_MS = 5_000;

/** Dependencies of a role's clock. `signal` ends the wait for the first comparison. */
export type ServiceClockOptions = { log: Logger; metrics: Pick<Metrics, "registry">; signal: AbortSignal };

/** A clock that follows the database's clock. `stop` ends the regular comparison. */
export type ServiceClock = FollowedClock & { stop(): void };

/**
 * Reads the time of the database's machine. Asks three times and uses the answer with the shortest round
 * trip, halfway through which the database read its clock. Rejects if the database does not answer.
 */
export async function readDatabaseTime(url: string): Promise<Reading> {
  const connection = openConnection({ url, name: "deputize-clock", connectMs: LIMIT_MS, queryMs: LIMIT_MS });
  try {
    await connection.connect();
    const readings: (Reading & { at: number })[] = [];
    for (let asked = 0; asked < ANSWERS; asked += 1) {
      const begun = machineTime.elapsed();
      const { rows } = await connection.query<{ time: number }>(
        "select extract(epoch from clock_timestamp())::float8 * 1000 as time",
      );
      const at = machineTime.elapsed();
      const errorMs = (at - begun) / 2;
      readings.push({ time: (rows[0]?.time ?? Number.NaN) + errorMs, errorMs, at });
    }
    const [best] = readings.sort((one, other) => one.errorMs - other.errorMs);
    if (best === undefined || Number.isNaN(best.time)) throw new Error("The database returned no time");
    return { time: best.time + machineTime.elapsed() - best.at, errorMs: best.errorMs };
  } finally {
    void connection.end().catch(() => {});
  }
}

/**
 * Waits for the database's schema. Then creates a clock that follows the database's, with a metric, and
 * compares again every minute. Resolves after the first comparison, so no role works with a time that nobody
 * checked. Resolves to `undefined` if `signal` aborts first.
 */
export async function openServiceClock(
  urls: DatabaseUrls,
  { log, metrics, signal }: ServiceClockOptions,
): Promise<ServiceClock | undefined> {
  await waitForSchema(urls, { log, signal });
  const clock = followClock({ read: () => readDatabaseTime(urls.DATABASE_URL), other: "the database", log });
  let said: string | undefined;
  while (!signal.aborted) {
    const reason = await clock.compare().then(() => undefined, outageReason);
    if (reason === undefined) break;
    if (reason !== said) log.warn(`waiting: the database's clock could not be read: ${reason}`);
    said = reason;
    await sleep(RETRY_MS, undefined, { signal }).catch(() => {});
  }
  if (signal.aborted) return undefined;
  showClockOffset(metrics, clock);
  const timer = setInterval(() => {
    clock.compare().catch((error: unknown) => {
      log.debug({ err: error }, "the database's clock could not be read");
    });
  }, EVERY_MS).unref();
  return { ...clock, stop: () => clearInterval(timer) };
}

/** Returns a clock for one command, which has compared once. Rejects if the database does not answer. */
export async function followDatabase(url: string): Promise<FollowedClock> {
  const log = { debug() {}, info() {}, warn() {} };
  const clock = followClock({ read: () => readDatabaseTime(url), other: "the database", log });
  await clock.compare();
  return clock;
}
