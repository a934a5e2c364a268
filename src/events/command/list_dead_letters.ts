import type { Knex } from "knex";
import type { Database } from "../../db/database.ts";
import type { DeadLetterRow } from "../../db/tables.ts";
import { isUuid } from "../../ids.ts";
import { UsageError } from "../../input/exit_status.ts";
import { type PageOrder, pageQuery, readPage } from "../../input/pagination.ts";
import type { BusEvent } from "../bus.ts";
import { EventsError, printable, type Report, readTime, readUuid } from "./report.ts";

/** Filters for dead letters. `since` and `until` limit the time at which an event became a dead letter. */
export type LetterFilters = { consumer?: string; type?: string; since?: string; until?: string };
/** Options of `deputize events dead-letters list`. */
export type ListOptions = LetterFilters & { limit?: string; cursor?: string; json?: boolean };

/** A dead letter with its parsed event. */
export type Letter = Omit<DeadLetterRow, "event"> & { event: BusEvent };

/** Together, the consumer and the event id identify a letter. */
const newestFirst: PageOrder = {
  time: "l.created_at",
  id: "l.letter",
  isId: (text) => isUuid(text.slice(text.lastIndexOf("/") + 1)),
};

/** `deputize events dead-letters list`: returns a page of letters, newest first. Throws `UsageError`. */
export async function listLetters(db: Database, options: ListOptions): Promise<Report> {
  const page = readPageQuery(options);
  const named = lettersOf(db, options).select("*", db.raw("consumer || '/' || event_id as letter"));
  const query = db.from(named.as("l")).select("l.*");
  const { rows, next_cursor } = await readPage<DeadLetterRow>(query, newestFirst, page);
  const letters = rows.map(toLetter);
  const lines = letters.map(({ created_at, consumer, event, reason }) =>
    [created_at.toISOString(), consumer, event.type, event.eventId, reason].map(printable).join("  "),
  );
  return {
    json: { items: letters.map(shown), next_cursor },
    lines: [
      ...(lines.length > 0 ? lines : ["No dead letters"]),
      ...(next_cursor === null ? [] : [`For more: --cursor ${next_cursor}`]),
    ],
  };
}

function readPageQuery({ limit, cursor }: ListOptions) {
  const page = pageQuery.safeParse({ limit, cursor });
  if (page.success) return page.data;
  throw new UsageError("--limit is not a number from 1 to 100, or --cursor is too long");
}

/** Throws `UsageError` if an option is wrong. */
export function checkList(options: ListOptions): void {
  readPageQuery(options);
  readTimes(options);
}

/** Returns the times of these filters. Throws `UsageError`. */
export function readTimes({ since, until }: LetterFilters): { since?: Date; until?: Date } {
  return {
    ...(since !== undefined && { since: readTime("--since", since) }),
    ...(until !== undefined && { until: readTime("--until", until) }),
  };
}

/**
 * `deputize events dead-letters show`: returns the dead letters of an event for all consumers, with the
 * payload. The payload contains no secret. Throws `EventsError` if there is none.
 */
export async function showLetters(db: Database, typedId: string): Promise<Report> {
  const eventId = readUuid(typedId, "an event's id");
  const rows = await db("dead_letters").where({ event_id: eventId }).orderBy("consumer");
  const letters = rows.map(toLetter);
  if (letters.length === 0) throw new EventsError(`There is no dead letter of the event ${eventId}`);
  const items = letters.map((letter) => ({ ...shown(letter), payload: letter.event.payload }));
  return { json: { items }, lines: letters.flatMap(linesOf) };
}

/** Returns a query for the dead letters that match the filters. Throws `UsageError` for an invalid time. */
export function lettersOf(db: Pick<Database, "from">, filters: LetterFilters): Knex.QueryBuilder {
  const { consumer, type } = filters;
  const { since, until } = readTimes(filters);
  const found = db.from("dead_letters");
  if (consumer !== undefined) found.where({ consumer });
  if (type !== undefined) found.whereRaw("event ->> 'type' = ?", [type]);
  if (since !== undefined) found.where("created_at", ">=", since);
  if (until !== undefined) found.where("created_at", "<", until);
  return found;
}

/** Converts a row to a letter with its event. */
export function toLetter(row: DeadLetterRow): Letter {
  const event = row.event as Omit<BusEvent, "createdAt"> & { createdAt: string };
  return { ...row, event: { ...event, createdAt: new Date(event.createdAt) } };
}

function shown({ consumer, event, reason, origin, created_at, carried_at }: Letter) {
  return {
    event_id: event.eventId,
    consumer,
    type: event.type,
    aggregate_type: event.aggregateType,
    aggregate_id: event.aggregateId,
    sequence: event.aggregateSeq,
    happened_at: event.createdAt.toISOString(),
    put_aside_at: created_at.toISOString(),
    reason,
    origin,
    on_topic_since: carried_at?.toISOString() ?? null,
  };
}

function linesOf({ consumer, event, reason, origin, created_at, carried_at }: Letter): string[] {
  const from =
    origin === null
      ? "the outbox"
      : `${origin.topic}, partition ${origin.partition}, offset ${origin.offset}`;
  const fields: [string, string][] = [
    ["Event", event.eventId],
    ["Type", event.type],
    ["Of", `${event.aggregateType} ${event.aggregateId}, its event number ${event.aggregateSeq}`],
    ["Happened", event.createdAt.toISOString()],
    ["Consumer", consumer],
    ["Put aside", created_at.toISOString()],
    ["Reason", reason],
    ["Came from", from],
    ["On topic", carried_at === null ? "not yet" : `since ${carried_at.toISOString()}`],
    ["Payload", event.payload],
  ];
  return fields.map(([name, text]) => `${name.padEnd("Came from".length)}  ${printable(text)}`);
}
