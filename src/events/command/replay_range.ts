import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { rememberLonger } from "../inbox.ts";
import type { Reader } from "../published.ts";
import { notKept, queues, type Range, type ReplayRangeOptions, readRange } from "./range.ts";
import { counted, EventsError, type Report, UnfinishedError } from "./report.ts";

/**
 * Dependencies of a replay. `progress` receives a sentence at intervals. `batch` is the maximum number of
 * events in one transaction.
 */
export type ReplayRangeDeps = {
  clock: Clock;
  readers: readonly Reader[];
  progress(line: string): void;
  batch?: number;
};

const BATCH = 1_000;
const BATCHES_A_LINE = 10;
const POLL_MS = 200;
/** The replay ends if no worker takes events off the queue for this many seconds. */
const STALLED_SECONDS = 60;

/**
 * `deputize events replay`: publishes the events of a range of time to their topic again, with the same ids.
 * Keeps the order within a connection or an account. At most two batches wait ahead of new events. After an
 * interruption, the user can continue from the time printed last.
 *
 * Requires its own database session. Throws `EventsError`, or `UnfinishedError` if no worker takes events off
 * the queue.
 */
export async function replayRange(
  db: Database,
  deps: ReplayRangeDeps,
  options: ReplayRangeOptions,
): Promise<Report> {
  const range = readRange(options);
  const missing = notKept(range, deps.clock.now());
  await requireKafka(db);
  await takeReplayLock(db);
  const found = await listRange(db, range);
  const dryRun = options.dryRun === true;
  const brought = dryRun ? 0 : await bringAll(db, deps, range, found);
  return report({ range, missing, found, brought, dryRun });
}

/** The row lock prevents a change of `EVENTS` until the transaction ends. */
async function requireKafka(db: Database | Transaction): Promise<void> {
  const row = await db("event_way").forShare().first("way");
  if (row?.way === "kafka") return;
  throw new EventsError("Events travel with EVENTS=embedded here, so there is no topic to replay them to");
}

/** Keeps the lock until the session ends. */
async function takeReplayLock(db: Database): Promise<void> {
  const { rows } = await db.raw("select pg_try_advisory_lock(hashtext('deputize.events.replay')) as free");
  if (!rows[0].free) throw new EventsError("Another replay is running: wait until it ends");
}

async function listRange(db: Database, range: Range): Promise<number> {
  await db.raw(
    `create temp table replay_list (
       place bigint primary key, event_id uuid not null, account_id uuid, happened_at timestamptz not null)`,
  );
  const { rowCount } = await queues[range.topic].list(db, range);
  await db.raw("analyze replay_list");
  return rowCount;
}

async function bringAll(
  db: Database,
  deps: ReplayRangeDeps,
  { topic }: Range,
  found: number,
): Promise<number> {
  const { clock, readers, progress, batch = BATCH } = deps;
  let brought = 0;
  for (let done = 0, batches = 1; done < found; done += batch, batches += 1) {
    const places = { after: done, until: done + batch };
    if (!(await untilTaken(db, deps, topic, done))) {
      throw new UnfinishedError(
        `No worker takes events off the queue: start one. ${await soFar(db, done, found)}`,
      );
    }
    brought += await db.transaction(async (tx) => {
      await requireKafka(tx);
      const ids = await tx("replay_list")
        .whereBetween("place", [done + 1, done + batch])
        .pluck("event_id");
      if (topic === "lifecycle") await rememberLonger(tx, { clock, readers }, ids);
      return (await queues[topic].bring(tx, places)).rowCount;
    });
    if (batches % BATCHES_A_LINE === 0) progress(await soFar(db, places.until, found));
  }
  return brought;
}

/** Waits until at most one batch is in the queue. Returns false if no event leaves the queue in time. */
async function untilTaken(
  db: Database,
  { clock, batch = BATCH }: ReplayRangeDeps,
  topic: Range["topic"],
  done: number,
): Promise<boolean> {
  let least = Number.POSITIVE_INFINITY;
  let movedAt = clock.now().getTime();
  for (;;) {
    await requireKafka(db);
    const waiting = await queues[topic].waiting(db, { after: done - 10 * batch, until: done });
    if (waiting <= batch) return true;
    if (waiting < least) {
      least = waiting;
      movedAt = clock.now().getTime();
    }
    if (clock.now().getTime() - movedAt > STALLED_SECONDS * 1000) return false;
    await sleep(POLL_MS);
  }
}

async function soFar(db: Database, done: number, found: number): Promise<string> {
  const [row] = await db("replay_list").where("place", ">", done).min("happened_at as from");
  const rest = row?.from;
  const brought = `${Math.min(done, found)} of ${found} were replayed`;
  return rest instanceof Date ? `${brought}; to continue, give --from ${rest.toISOString()}` : brought;
}

function report(result: {
  range: Range;
  missing: { from: Date; to: Date } | null;
  found: number;
  brought: number;
  dryRun: boolean;
}): Report {
  const { range, missing, found, brought, dryRun } = result;
  const gap = missing && { from: missing.from.toISOString(), to: missing.to.toISOString() };
  const leftOut = dryRun ? 0 : found - brought;
  return {
    json: {
      topic: range.topic,
      from: range.from.toISOString(),
      to: range.to.toISOString(),
      found,
      brought,
      left_out: leftOut,
      not_kept: gap,
      dry_run: dryRun,
    },
    lines: [
      dryRun ? `Would be replayed: ${counted(found, "event")}` : `Replayed: ${counted(brought, "event")}`,
      ...(leftOut === 0 ? [] : [`Left out: ${leftOut}, which already wait to be sent`]),
      ...(gap === null ? [] : [`No longer kept: events from ${gap.from} to ${gap.to}`]),
    ],
  };
}
