import type { Database, Transaction } from "../db/database.ts";
import type { OutboxRow, PublishedEventRow } from "../db/tables.ts";
import type { Consumer } from "./bus.ts";
import { OUTBOX_SHARDS } from "./outbox.ts";

/** The carrier of events from the outbox to their consumers: the setting `EVENTS`. */
export type CarrierKind = "embedded" | "kafka";

/** The name of a consumer and the events that it reads. */
export type Reader = Pick<Consumer, "name" | "aggregateTypes">;

/** SQL condition: the consumer reads the event in `p`, which is neither handled nor a dead letter. */
const UNHANDLED = `
(cast(:types as text[]) is null or p.aggregatetype = any(:types))
and not exists (select from inbox i where i.consumer = :name and i.event_id = p.event_id)`;

/** The columns that `outbox` and `published_events` share. */
export const EVENT_COLUMNS = `event_id, aggregatetype, aggregateid, aggregate_seq, type, schema_version, shard, payload, headers, created_at`;

/**
 * Deletes events from the outbox after the bus has confirmed them. For Kafka, which may lose records, keeps
 * them as published events. Deletes only rows of shards that the worker has owned without interruption since
 * it read the rows. Deletes nothing if `EVENTS` has changed.
 */
export async function takeOffOutbox(
  database: Database,
  rows: readonly (Pick<OutboxRow, "id"> & { epoch: number })[],
  { workerId, carrier }: { workerId: string; carrier: CarrierKind },
): Promise<void> {
  const gone = `
    taken as materialized (select way from event_way where way = :carrier for share),
    gone as (
      delete from outbox o
      using taken, relay_shards s, unnest(cast(:ids as bigint[]), cast(:epochs as bigint[])) as sent (id, epoch)
      where o.id = sent.id and s.shard = o.shard % ${OUTBOX_SHARDS} and s.owner = :workerId and s.epoch = sent.epoch returning o.*)`;
  await database.raw(
    carrier === "kafka"
      ? `with ${gone}
         insert into published_events (${EVENT_COLUMNS}, published_at) select ${EVENT_COLUMNS}, now() from gone
         on conflict (event_id) do update set published_at = excluded.published_at`
      : `with ${gone} select from gone`,
    { carrier, ids: rows.map((row) => row.id), epochs: rows.map((row) => row.epoch), workerId },
  );
}

/**
 * Returns events that a consumer has not handled, oldest first. They were published at or after `from`
 * (`null`: at any time) and before `until`.
 */
export async function unhandledEvents(
  database: Database,
  { name, aggregateTypes }: Reader,
  { from, until, limit }: { from: Date | null; until: Date; limit: number },
): Promise<PublishedEventRow[]> {
  const { rows } = await database.raw(
    `select p.* from published_events p
     where p.published_at >= coalesce(cast(:from as timestamptz), '-infinity') and p.published_at < :until
       and ${UNHANDLED}
     order by p.published_at, p.aggregateid, p.aggregate_seq limit :limit`,
    { name, types: aggregateTypes ?? null, from, until, limit },
  );
  return rows;
}

/** Sets the time of publication of these events to now. */
export async function notePublished(database: Database, eventIds: readonly string[]): Promise<void> {
  await database("published_events")
    .whereIn("event_id", eventIds)
    .update({ published_at: database.raw("now()") });
}

/** Puts published events that a consumer has not handled into the outbox again. Returns their number. */
export async function returnUnhandled(tx: Transaction, { name, aggregateTypes }: Reader): Promise<number> {
  const { rowCount } = await tx.raw(
    `insert into outbox (${EVENT_COLUMNS}) select ${EVENT_COLUMNS} from published_events p where ${UNHANDLED}
     order by p.published_at, p.aggregateid, p.aggregate_seq on conflict do nothing`,
    { name, types: aggregateTypes ?? null },
  );
  return rowCount;
}
