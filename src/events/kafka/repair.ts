import { addSeconds } from "../../clock.ts";
import { type Loop, startLoop } from "../../concurrency/loop.ts";
import type { Database } from "../../db/database.ts";
import type { EventRepairRow } from "../../db/tables.ts";
import type { Logger } from "../../log.ts";
import type { BusEvent } from "../bus.ts";
import { notePublished, type Reader, unhandledEvents } from "../published.ts";
import { toEvent } from "../relay.ts";
import type { PartitionLag } from "./lag.ts";

/** Dependencies of a repair. `seconds` is the interval between checks of each reader. */
export type RepairDeps = {
  database: Database;
  log: Logger;
  readLag(reader: Reader): Promise<PartitionLag[]>;
  publish(events: BusEvent[]): Promise<void>;
  seconds?: number;
};

/** Seconds between checks of a reader. */
export const REPAIR_SECONDS = 300;
/** A transaction that records a published event may commit this many seconds after the recorded time. */
const OVERLAP_SECONDS = 600;
const BATCH = 200;

/**
 * Creates the function that publishes events again after Kafka has lost them. A step checks one reader, and
 * returns the number of events that it published again. Only one process at a time checks a reader.
 *
 * A step records the end offsets of the partitions. Once the reader has passed them, earlier events that are
 * still unhandled can no longer arrive. A later step then publishes these events again, with the same ids.
 */
export function createRepair({ database, log, readLag, publish, seconds = REPAIR_SECONDS }: RepairDeps) {
  return async function repair(reader: Reader): Promise<number> {
    const row = await claim(database, reader.name, seconds);
    if (row === undefined) return 0;
    const at = await databaseTime(database);
    const lags = await readLag(reader);
    const { sampled_at: sampledAt, sampled_ends: ends } = row;
    if (sampledAt !== null && ends !== null && !hasPassed(lags, ends)) return 0;
    const count = sampledAt === null ? 0 : await publishUnhandled(reader, row.handled_until, sampledAt);
    await database("event_repairs")
      .where({ consumer: reader.name })
      .update({
        ...(sampledAt !== null && { handled_until: sampledAt }),
        sampled_at: at,
        sampled_ends: JSON.stringify(endsOf(lags)) as never,
      });
    return count;
  };

  async function publishUnhandled(reader: Reader, handledUntil: Date | null, until: Date): Promise<number> {
    const from = handledUntil === null ? null : addSeconds(handledUntil, -OVERLAP_SECONDS);
    let count = 0;
    for (;;) {
      const rows = await unhandledEvents(database, reader, { from, until, limit: BATCH });
      if (rows.length === 0) return count;
      await publish(rows.map(toEvent));
      await notePublished(
        database,
        rows.map((row) => row.event_id),
      );
      count += rows.length;
      log.warn({ consumer: reader.name, events: rows.length }, "Kafka lost events; published again");
    }
  }
}

/** Checks the readers in turn, including readers that the caller adds to `readers` later. */
export function startRepairLoop({ readers, ...deps }: RepairDeps & { readers: readonly Reader[] }): Loop {
  const repair = createRepair(deps);
  const pause = ((deps.seconds ?? REPAIR_SECONDS) * 1000) / 10;
  return startLoop({
    name: "repair",
    log: deps.log,
    shortestPause: pause,
    longestPause: pause,
    async step() {
      for (const reader of readers) await repair(reader);
      return false;
    },
  });
}

/** Claims a reader for this process until the next check is due. */
async function claim(
  database: Database,
  consumer: string,
  seconds: number,
): Promise<EventRepairRow | undefined> {
  const { rows } = await database.raw(
    `insert into event_repairs as r (consumer, due_at) values (:consumer, now() + make_interval(secs => :seconds))
     on conflict (consumer) do update set due_at = excluded.due_at where r.due_at <= now() returning *`,
    { consumer, seconds },
  );
  return rows[0];
}

/** Publications are recorded with the database's clock, so the time of a sample must use it too. */
async function databaseTime(database: Database): Promise<Date> {
  const { rows } = await database.raw("select now() as now");
  return rows[0].now;
}

function endsOf(lags: readonly PartitionLag[]): Record<string, string> {
  return Object.fromEntries(lags.map(({ partition, end }) => [partition, String(end)]));
}

/**
 * Returns whether a group has passed the sampled ends: it has committed them, or Kafka no longer keeps the
 * records before them. A partition that is shorter than its sampled end was created again or lost records, so
 * its current end counts.
 */
export function hasPassed(lags: readonly PartitionLag[], ends: Record<string, string>): boolean {
  const now = new Map(lags.map((each) => [String(each.partition), each]));
  return Object.entries(ends).every(([partition, text]) => {
    const lag = now.get(partition);
    if (lag === undefined) return true;
    const sampled = BigInt(text);
    const target = lag.end < sampled ? lag.end : sampled;
    return lag.low >= target || (lag.committed !== undefined && lag.committed >= target);
  });
}
