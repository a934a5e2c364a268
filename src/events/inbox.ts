import type { Clock } from "../clock.ts";
import type { Transaction } from "../db/database.ts";
import type { BusEvent, Consumer } from "./bus.ts";
import type { Reader } from "./published.ts";

/**
 * Adds events to a consumer's inbox, and returns those that it did not contain. Inserts in the order of event
 * ids, so that two concurrent batches cannot deadlock.
 */
export async function enterInbox(
  tx: Transaction,
  consumer: Pick<Consumer, "name">,
  events: BusEvent[],
  now: Date,
): Promise<BusEvent[]> {
  const { rows } = await tx.raw(
    `insert into inbox (consumer, event_id, handled_at)
     select distinct :consumer::text, event_id, :now::timestamptz from unnest(:ids::uuid[]) as event (event_id)
     order by event_id on conflict do nothing returning event_id`,
    { consumer: consumer.name, now, ids: events.map((event) => event.eventId) },
  );
  const fresh = new Set(rows.map((row: { event_id: string }) => row.event_id));
  return events.filter((event) => fresh.delete(event.eventId));
}

/** Keeps inbox entries of resent events for 14 more days, so that no late copy is handled twice. */
export async function rememberLonger(
  tx: Transaction,
  { clock, readers }: { clock: Clock; readers: readonly Reader[] },
  eventIds: readonly string[],
): Promise<void> {
  await tx.raw(
    `update inbox set handled_at = greatest(handled_at, :now)
     where consumer = any(:consumers::text[]) and event_id = any(:eventIds::uuid[])`,
    { now: clock.now(), consumers: readers.map(({ name }) => name), eventIds },
  );
}
