import type { Clock } from "../../clock.ts";
import { followDatabase } from "../../db/clock/service_clock.ts";
import { type Database, openDatabase } from "../../db/database.ts";
import { requireSessions } from "../../db/pooler/check_poolers.ts";
import { throwRefusal } from "../../db/refusals.ts";
import { ApiError } from "../../errors.ts";
import type { KafkaSettings } from "../../input/event_settings.ts";
import { exitStatus, UsageError } from "../../input/exit_status.ts";
import type { Reader } from "../published.ts";
import { checkList, type ListOptions, listLetters, showLetters } from "./list_dead_letters.ts";
import { type ReplayRangeOptions, readRange } from "./range.ts";
import { checkReplay, type ReplayLettersOptions, replayLetters } from "./replay_dead_letters.ts";
import { replayRange } from "./replay_range.ts";
import { EventsError, printable, printableJson, type Report, readUuid, UnfinishedError } from "./report.ts";
import { showStatus } from "./status.ts";

type Stream = { write(text: string): unknown };

/** Dependencies of the commands. Without `clock`, the database's clock counts. */
export type EventsCommandsDeps = {
  url: string;
  clock?: Clock;
  readers: readonly Reader[];
  /** `undefined` if events do not travel through Kafka. */
  kafka: KafkaSettings | undefined;
  out: Stream;
  err: Stream;
};

type Typed = { json?: boolean };

/** The commands of `deputize events`. */
export type EventsCommands = {
  status(options: Typed): Promise<number>;
  listLetters(options: ListOptions): Promise<number>;
  showLetters(options: Typed & { eventId: string }): Promise<number>;
  replayLetters(options: ReplayLettersOptions): Promise<number>;
  replayRange(options: ReplayRangeOptions): Promise<number>;
};

/**
 * Creates the commands. Each returns its exit status: 0 for success, 1 if the command was refused and changed
 * nothing, 2 for a wrong command line, 3 if the database or Kafka could not be used. An interrupted command
 * continues when it runs again.
 */
export function createEventsCommands(deps: EventsCommandsDeps): EventsCommands {
  const progress = (line: string) => void deps.err.write(`deputize events: ${line}\n`);
  return {
    status: (options) =>
      run(
        deps,
        options,
        () => {},
        (db, clock) => showStatus(db, { ...deps, clock }),
      ),
    listLetters: (options) =>
      run(
        deps,
        options,
        () => checkList(options),
        (db) => listLetters(db, options),
      ),
    showLetters: (options) =>
      run(
        deps,
        options,
        () => readUuid(options.eventId, "an event's id"),
        (db) => showLetters(db, options.eventId),
      ),
    replayLetters: (options) =>
      run(
        deps,
        options,
        () => checkReplay(options),
        (db, clock) => replayLetters(db, { ...deps, clock }, options),
      ),
    replayRange: (options) =>
      run(
        deps,
        options,
        () => readRange(options),
        (db, clock) => replayRange(db, { ...deps, clock, progress }, options),
      ),
  };
}

/** `check` throws for a wrong command line, before anything connects. */
async function run(
  deps: EventsCommandsDeps,
  options: Typed,
  check: () => unknown,
  command: (db: Database, clock: Clock) => Promise<Report>,
): Promise<number> {
  try {
    check();
  } catch (error) {
    return complain(deps, error);
  }
  return runConnected(deps, options, command);
}

async function runConnected(
  deps: EventsCommandsDeps,
  { json: asJson }: Typed,
  command: (db: Database, clock: Clock) => Promise<Report>,
): Promise<number> {
  const { url, clock, out } = deps;
  const db = openDatabase({ url, name: "deputize-events", max: 1, keepsSession: true, onError: () => {} });
  try {
    await requireSessions(url);
    const { json, lines, status = 0 } = await command(db, clock ?? (await followDatabase(url)));
    out.write(asJson ? `${printableJson(json)}\n` : `${lines.join("\n")}\n`);
    return status;
  } catch (error) {
    throwRefusal(error);
    return complain(deps, error);
  } finally {
    await db.destroy();
  }
}

/** Prints why a command failed, and returns its exit status. */
function complain({ err }: EventsCommandsDeps, error: unknown): number {
  const said = [EventsError, UsageError, ApiError, UnfinishedError].some((type) => error instanceof type);
  const complaint = said ? reasonOf(error) : `the database could not be used (${reasonOf(error)})`;
  err.write(`deputize events: ${printable(complaint)}\n`);
  return statusOf(error);
}

/** Only a cursor of another list is refused with an `ApiError`. */
function statusOf(error: unknown): number {
  if (error instanceof UsageError || error instanceof ApiError) return exitStatus.usage;
  return error instanceof EventsError ? exitStatus.failed : exitStatus.unavailable;
}

/** Returns an error's message. For several addresses, joins the messages of the errors for each address. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join(", ");
  return error instanceof Error ? error.message : String(error);
}
