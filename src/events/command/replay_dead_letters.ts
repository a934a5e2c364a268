import { addSeconds, type Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { DeadLetterRow } from "../../db/tables.ts";
import { UsageError } from "../../input/exit_status.ts";
import { UNREADABLE } from "../dead_letters.ts";
import { rememberLonger } from "../inbox.ts";
import { putBack } from "../outbox.ts";
import type { Reader } from "../published.ts";
import { PUBLISHED_DAYS } from "../retention.ts";
import { type Letter, type LetterFilters, lettersOf, readTimes, toLetter } from "./list_dead_letters.ts";
import { counted, EventsError, type Report, readUuid } from "./report.ts";

/** Options of `deputize events dead-letters replay`. */
export type ReplayLettersOptions = LetterFilters & {
  eventIds: readonly string[];
  all?: boolean;
  dryRun?: boolean;
  json?: boolean;
};

/** Dependencies of a replay. `batch` is the maximum number of letters in one transaction. */
export type ReplayDeps = { clock: Clock; readers: readonly Reader[]; batch?: number };

/** Reasons why a letter cannot be sent again, as the predicate of a sentence. */
const OBSTACLES = {
  unreadable: "is a record of Kafka that could not be read, so there is no event to send again",
  too_old: `was put aside more than ${PUBLISHED_DAYS} days ago: other consumers may have forgotten it, and would handle it twice`,
  no_consumer: "belongs to a consumer that no longer exists",
  number_taken: "has the sequence number of another event that waits in the outbox",
} as const;
type Obstacle = keyof typeof OBSTACLES;

type Counts = { replayed: number; left: Record<Obstacle, number> };
/** The position in the list after which the next batch begins. */
type Place = { at: string; aggregate: string; seq: number; consumer: string };
type Row = DeadLetterRow & Place;

const DAY = 24 * 60 * 60;
const BATCH = 1_000;
const START: Place = { at: "-infinity", aggregate: "", seq: 0, consumer: "" };

/**
 * `deputize events dead-letters replay`: puts the events of dead letters into the outbox again, for the
 * consumers of these letters. Ignores letters created after the start.
 *
 * Each batch is one transaction, so the command can be interrupted, and several can run concurrently. If the
 * user names ids, either all of these letters are sent or none. Throws `EventsError`.
 */
export async function replayLetters(
  db: Database,
  deps: ReplayDeps,
  options: ReplayLettersOptions,
): Promise<Report> {
  const counts =
    options.eventIds.length > 0
      ? await replayNamed(db, deps, readIds(options), options.dryRun)
      : await replayFound(db, deps, readFilters(options), options.dryRun);
  return report(counts, options.dryRun === true);
}

/** Throws `UsageError` if an option is wrong. */
export function checkReplay(options: ReplayLettersOptions): void {
  if (options.eventIds.length > 0) readIds(options);
  else readTimes(readFilters(options));
}

function readIds({ eventIds, all, consumer, type, since, until }: ReplayLettersOptions): string[] {
  if (all || [consumer, type, since, until].some((filter) => filter !== undefined)) {
    throw new UsageError("Name events or give filters, not both");
  }
  if (eventIds.length > BATCH) throw new UsageError(`Name at most ${BATCH} events, or give a filter`);
  return [...new Set(eventIds.map((id) => readUuid(id, "an event's id")))];
}

function readFilters({ all, consumer, type, since, until }: ReplayLettersOptions): LetterFilters {
  const filters = Object.entries({ consumer, type, since, until }).filter(([, text]) => text !== undefined);
  if (all === true && filters.length > 0) throw new UsageError("Give --all or filters, not both");
  if (all !== true && filters.length === 0) {
    throw new UsageError("Name the events to send again, or give a filter, or --all");
  }
  return Object.fromEntries(filters);
}

async function replayNamed(
  db: Database,
  deps: ReplayDeps,
  ids: readonly string[],
  dryRun = false,
): Promise<Counts> {
  return db.transaction(async (tx) => {
    await takeReplayLock(tx);
    const rows: DeadLetterRow[] = await tx("dead_letters")
      .whereIn("event_id", ids)
      .orderByRaw("created_at, event ->> 'aggregateId', (event ->> 'aggregateSeq')::bigint, consumer");
    const missing = ids.find((id) => rows.every(({ event_id }) => event_id !== id));
    if (missing !== undefined) throw new EventsError(`There is no dead letter of the event ${missing}`);
    const letters = rows.map(toLetter);
    for (const letter of letters) refuse(letter, obstacleOf(letter, deps));
    const taken = dryRun ? [] : await sendAgain(tx, deps, letters);
    for (const letter of taken) refuse(letter, "number_taken");
    return count(letters.map(() => undefined));
  });
}

function refuse({ event }: Letter, obstacle: Obstacle | undefined): void {
  if (obstacle === undefined) return;
  throw new EventsError(`The dead letter ${event.eventId} ${OBSTACLES[obstacle]}`);
}

async function replayFound(
  db: Database,
  deps: ReplayDeps,
  filters: LetterFilters,
  dryRun = false,
): Promise<Counts> {
  const { batch = BATCH } = deps;
  const [{ end }] = await lettersOf(db, filters).select(db.raw("max(created_at)::text as end"));
  const total = count([]);
  for (let place: Place | undefined = START; place !== undefined && end !== null; ) {
    const after: Place = place;
    const { results, last } = await db.transaction(async (tx) => {
      await takeReplayLock(tx);
      const rows = await readBatch(tx, filters, { after, end, batch });
      const results = await replayBatch(tx, deps, rows.map(toLetter), dryRun);
      return { results, last: rows.at(-1) };
    });
    add(total, count(results));
    place = last && { at: last.at, aggregate: last.aggregate, seq: last.seq, consumer: last.consumer };
  }
  return total;
}

async function takeReplayLock(tx: Transaction): Promise<void> {
  await tx.raw("select pg_advisory_xact_lock(hashtext('deputize.events.dead_letters'))");
}

async function readBatch(
  tx: Transaction,
  filters: LetterFilters,
  { after, end, batch }: { after: Place; end: string; batch: number },
): Promise<Row[]> {
  const named = lettersOf(tx, filters).select(
    "*",
    tx.raw("created_at::text as at"),
    tx.raw("event ->> 'aggregateId' as aggregate"),
    tx.raw("(event ->> 'aggregateSeq')::bigint as seq"),
  );
  return tx
    .from(named.as("l"))
    .whereRaw("created_at >= :at and created_at <= :end", { at: after.at, end })
    .whereRaw("(created_at, aggregate, seq, consumer) > (:at, :aggregate, :seq, :consumer)", after)
    .orderByRaw("created_at, aggregate, seq, consumer")
    .limit(batch);
}

/** Returns for each letter why it was not sent, or `undefined` if it was sent. */
async function replayBatch(
  tx: Transaction,
  deps: ReplayDeps,
  letters: readonly Letter[],
  dryRun: boolean,
): Promise<(Obstacle | undefined)[]> {
  const results = new Map(letters.map((letter) => [letter, obstacleOf(letter, deps)]));
  const free = letters.filter((letter) => results.get(letter) === undefined);
  const taken = dryRun ? [] : await sendAgain(tx, deps, free);
  for (const letter of taken) results.set(letter, "number_taken");
  return [...results.values()];
}

function obstacleOf(
  { event, consumer, created_at }: Letter,
  { clock, readers }: ReplayDeps,
): Obstacle | undefined {
  if (event.type === UNREADABLE) return "unreadable";
  if (created_at < addSeconds(clock.now(), -PUBLISHED_DAYS * DAY)) return "too_old";
  return readers.some(({ name }) => name === consumer) ? undefined : "no_consumer";
}

/** Returns the letters whose events the outbox could not accept. */
async function sendAgain(tx: Transaction, deps: ReplayDeps, letters: readonly Letter[]): Promise<Letter[]> {
  if (letters.length === 0) return [];
  const waiting = await putBack(
    tx,
    letters.map(({ event }) => event),
  );
  const sent = letters.filter(({ event }) => waiting.has(event.eventId));
  const keys = sent.map(({ consumer, event_id }) => [consumer, event_id]);
  await tx("dead_letters").whereIn(["consumer", "event_id"], keys).delete();
  await tx("inbox").whereIn(["consumer", "event_id"], keys).delete();
  await rememberLonger(tx, deps, [...waiting]);
  return letters.filter((letter) => !sent.includes(letter));
}

function count(results: readonly (Obstacle | undefined)[]): Counts {
  const of = (obstacle?: Obstacle) => results.filter((result) => result === obstacle).length;
  const left = Object.keys(OBSTACLES).map((name) => [name, of(name as Obstacle)]);
  return { replayed: of(), left: Object.fromEntries(left) };
}

function add(total: Counts, { replayed, left }: Counts): void {
  total.replayed += replayed;
  for (const [name, number] of Object.entries(left)) total.left[name as Obstacle] += number;
}

function report({ replayed, left }: Counts, dryRun: boolean): Report {
  const done = dryRun ? "Would be sent again" : "Sent again";
  return {
    json: { replayed, left, dry_run: dryRun },
    lines: [
      `${done}: ${counted(replayed, "dead letter")}`,
      ...Object.entries(left)
        .filter(([, number]) => number > 0)
        .map(([name, number]) => `Left: ${number}, each ${OBSTACLES[name as Obstacle]}`),
    ],
  };
}
