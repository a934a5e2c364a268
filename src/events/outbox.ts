import { createHash } from "node:crypto";
import type { Transaction } from "../db/database.ts";
import type { OutboxRow } from "../db/tables.ts";
import { newId } from "../ids.ts";
import type { SecretBox } from "../secret_box.ts";
import { traceparent } from "../trace_context.ts";
import type { BusEvent } from "./bus.ts";
import { type AccountEvent, accountEventKinds, eventKinds, type LifecycleEvent } from "./kinds.ts";
import { eventSecretsContext } from "./secrets.ts";

export type { LifecycleEvent } from "./kinds.ts";

/** The number of shards in the outbox. One worker at a time relays a shard. */
export const OUTBOX_SHARDS = 8;

/**
 * The kind of aggregate of a customer's connection. A trigger of `outbox` sets it, whichever version appends
 * the event. Such events have shards of their own (8 to 15), which only workers relay that deliver
 * them.
 */
export const CUSTOMER_CONNECTION = "customer_connection";

/** The schema version of every event's payload. */
export const SCHEMA_VERSION = 1;

/** Appends one event and returns its id. See {@link appendEvents}. */
export async function appendEvent(
  tx: Transaction,
  secretBox: SecretBox,
  event: LifecycleEvent,
  now: Date,
): Promise<string> {
  const entry = entryOf(event, event.connectionId);
  await appendEntries(tx, secretBox, [entry], now);
  return entry.eventId;
}

/**
 * Appends events of one connection to the outbox, in the transaction of the change that they report. Assigns
 * the next sequence numbers under the lock of the connection's row, so the relay publishes them in the order
 * of commits. Stores secrets encrypted, never in the payload.
 *
 * Throws if the fields do not match the event's kind, if the events belong to several connections, or if the
 * connection does not exist.
 */
export async function appendEvents(
  tx: Transaction,
  secretBox: SecretBox,
  events: readonly LifecycleEvent[],
  now: Date,
): Promise<void> {
  const [first, ...others] = events;
  if (first === undefined) return;
  const toEntry = (event: LifecycleEvent) => entryOf(event, first.connectionId);
  await appendEntries(tx, secretBox, [toEntry(first), ...others.map(toEntry)], now);
}

async function appendEntries(
  tx: Transaction,
  secretBox: SecretBox,
  entries: readonly [Entry, ...Entry[]],
  now: Date,
): Promise<void> {
  const { connectionId } = entries[0].event;
  const firstSeq = await takeSequence(tx, connectionId, entries.length);
  await tx.raw(
    `insert into outbox (event_id, aggregatetype, aggregateid, aggregate_seq, type, schema_version, shard, payload,
                         headers, created_at)
     select event_id, 'connection', :connectionId, :firstSeq::bigint + place - 1, type, :version::integer,
            :shard::smallint, payload, :headers::jsonb, :now::timestamptz
     from unnest(:ids::uuid[], :types::text[], :payloads::text[]) with ordinality
       as entry (event_id, type, payload, place)
     order by place`,
    {
      connectionId,
      firstSeq,
      version: SCHEMA_VERSION,
      shard: shardOf(connectionId),
      headers: JSON.stringify({ traceparent: traceparent() }),
      now,
      ids: entries.map(({ eventId }) => eventId),
      types: entries.map(({ event }) => event.type),
      payloads: entries.map(({ payload }) => payload),
    },
  );
  for (const { eventId, event } of entries) {
    if (event.secrets === undefined) continue;
    const boxed = secretBox.box(JSON.stringify(event.secrets), eventSecretsContext(eventId));
    await tx("event_secrets").insert({ event_id: eventId, sealed: boxed, created_at: now });
  }
}

type Entry = { eventId: string; event: LifecycleEvent; payload: string };

function entryOf(event: LifecycleEvent, connectionId: string): Entry {
  const fields = eventKinds[event.type].fields.parse(event.fields);
  if (event.connectionId !== connectionId || fields.connection_id !== connectionId) {
    throw new Error(`The event ${event.type} and its fields must name the connection ${connectionId}`);
  }
  return { eventId: newId(), event, payload: JSON.stringify({ event: event.type, ...fields }) };
}

/** Returns the shard of a connection or an account. It never changes, which keeps the order of events. */
export function shardOf(aggregateId: string): number {
  return createHash("sha256").update(aggregateId).digest().readUInt8(0) % OUTBOX_SHARDS;
}

/** Returns the first of `count` new sequence numbers. */
async function takeSequence(tx: Transaction, connectionId: string, count: number): Promise<number> {
  const [row] = await tx("connections")
    .where({ connection_id: connectionId })
    .increment("next_event_seq", count)
    .returning("next_event_seq");
  if (row === undefined) throw new Error(`There is no connection ${connectionId}`);
  return row.next_event_seq - count;
}

/**
 * Puts published events into the outbox again, in the given order, as new rows. A relay that is publishing a
 * previous row therefore does not delete the new one. Returns the ids of the events that are now in the
 * outbox. An event is missing there if a different event has the same sequence number.
 */
export async function putBack(tx: Transaction, events: readonly BusEvent[]): Promise<Set<string>> {
  const rows = new Map(events.map((event) => [event.eventId, toRow(event)]));
  await tx("outbox")
    .whereIn("event_id", [...rows.keys()])
    .delete();
  const entered = await tx("outbox")
    .insert([...rows.values()])
    .onConflict()
    .ignore()
    .returning("event_id");
  return new Set(entered.map(({ event_id }) => event_id));
}

function toRow(event: BusEvent): Omit<OutboxRow, "id"> {
  return {
    event_id: event.eventId,
    aggregatetype: event.aggregateType,
    aggregateid: event.aggregateId,
    aggregate_seq: event.aggregateSeq,
    type: event.type,
    schema_version: event.schemaVersion,
    shard: shardOf(event.aggregateId),
    payload: event.payload,
    headers: event.headers,
    created_at: event.createdAt,
  };
}

/**
 * Appends an account event to the outbox, in the transaction of the change that it reports. Call it last: it
 * locks the balance, and decisions lock certificates before balances. Throws if the fields do not match the
 * kind, or if the account has no balance.
 */
export async function appendAccountEvent(tx: Transaction, event: AccountEvent, now: Date): Promise<void> {
  const { type, ...rest } = event;
  const fields = accountEventKinds[type].parse(rest);
  const [balance] = await tx("balances")
    .where({ account_id: fields.account_id })
    .increment("next_event_seq", 1)
    .returning("next_event_seq");
  if (balance === undefined) throw new Error(`The account ${fields.account_id} has no balance`);
  await tx("outbox").insert({
    event_id: newId(),
    aggregatetype: "account",
    aggregateid: fields.account_id,
    aggregate_seq: balance.next_event_seq - 1,
    type,
    schema_version: SCHEMA_VERSION,
    shard: shardOf(fields.account_id),
    payload: JSON.stringify({ event: type, ...fields }),
    headers: JSON.stringify({ traceparent: traceparent() }) as never,
    created_at: now,
  });
}
