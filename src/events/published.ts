import type { Database, Transaction } from "../db/database.ts";
import type { OutboxRow, PublishedEventRow } from "../db/tables.ts";
import type { Consumer } from "./bus.ts";

/** What says which events a consumer reads. */
export type Reader = Pick<Consumer, "name" | "aggregateType">;

/** Those of `p` that the consumer reads and has neither handled nor put aside. */
const UNHANDLED = `
(cast(:aggregateType as text) is null or p.aggregatetype = :aggregateType)
and not exists (select from inbox i where i.consumer = :name and i.event_id = p.event_id)`;

const COLUMNS = `event_id, aggregatetype, aggregateid, aggregate_seq, type, schema_version, shard, payload, headers, created_at`;

/**
 * Takes events off the outbox that the bus has confirmed, and keeps them as published where that is asked for:
 * a bus that may lose or forget them can then be given them again. Only rows of shards that the worker owns as
 * it did when it read them.
 */
export async function takeOffOutbox(
  database: Database,
  rows: readonly (Pick<OutboxRow, "id"> & { epoch: number })[],
  { workerId, keep }: { workerId: string; keep: boolean },
): Promise<void> {
  const gone = `
    delete from outbox o using relay_shards s, unnest(cast(:ids as bigint[]), cast(:epochs as bigint[])) as sent (id, epoch)
    where o.id = sent.id and s.shard = o.shard and s.owner = :workerId and s.epoch = sent.epoch`;
  await database.raw(
    keep
      ? `with gone as (${gone} returning o.*)
         insert into published_events (${COLUMNS}, published_at) select ${COLUMNS}, now() from gone
         on conflict (event_id) do update set published_at = excluded.published_at`
      : gone,
    { ids: rows.map((row) => row.id), epochs: rows.map((row) => row.epoch), workerId },
  );
}

/**
 * Events published in a range of time that a consumer has not handled, the oldest first; only those of shards
 * that the worker owns.
 */
export async function unhandledEvents(
  database: Database,
  { name, aggregateType }: Reader,
  { workerId, from, until, limit }: { workerId: string; from: Date; until: Date; limit: number },
): Promise<PublishedEventRow[]> {
  const { rows } = await database.raw(
    `select p.* from published_events p
     where p.published_at >= :from and p.published_at < :until
       and p.shard = any (array(select shard from relay_shards where owner = :workerId)) and ${UNHANDLED}
     order by p.published_at, p.aggregateid, p.aggregate_seq limit :limit`,
    { name, aggregateType: aggregateType ?? null, workerId, from, until, limit },
  );
  return rows;
}

/** Notes that events were published again now. */
export async function notePublished(database: Database, eventIds: readonly string[]): Promise<void> {
  await database("published_events")
    .whereIn("event_id", eventIds)
    .update({ published_at: database.raw("now()") });
}

/** Gives the outbox what a consumer has not handled of what was published. Returns how many events. */
export async function returnUnhandled(tx: Transaction, { name, aggregateType }: Reader): Promise<number> {
  const { rowCount } = await tx.raw(
    `insert into outbox (${COLUMNS}) select ${COLUMNS} from published_events p where ${UNHANDLED}
     order by p.published_at, p.aggregateid, p.aggregate_seq on conflict do nothing`,
    { name, aggregateType: aggregateType ?? null },
  );
  return rowCount;
}
