import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import { isAway } from "../db/errors.ts";
import type { Logger } from "../log.ts";
import type { Bus, BusEvent, Consumer } from "./bus.ts";
import type { EventMetrics } from "./event_metrics.ts";
import type { Measurements } from "./measurements.ts";
import type { Reader } from "./published.ts";

/** What consuming needs. `measure` is told what became of events. */
export type ConsumeDeps = {
  database: Database;
  clock: Clock;
  log: Logger;
  measure?: EventMetrics | undefined;
};

/**
 * What a bus works with. `workerId` is the worker whose shards its process relays. `leaseSeconds` is how long
 * those stay its own after it dies. The bus adds to `measurements` what only it can read.
 */
export type BusDeps = ConsumeDeps & {
  workerId: string;
  leaseSeconds: number;
  measurements?: Pick<Measurements, "add"> | undefined;
};

/** Where a bus brought an event from. */
export type Origin = { topic: string; partition: number; offset: string };

/** The type of what was put aside and is no event. */
export const UNREADABLE = "unreadable";

const TRIES = 3;

/**
 * Has a consumer handle those of the events that it reads, each exactly once: events that its inbox knows are
 * left out, and the others enter it in the transaction of their handling. When a batch fails, its events are
 * handled one by one; one that fails three times is put aside as a dead letter. Throws when the database is
 * away: then nothing is put aside, call again.
 */
export async function consume(
  deps: ConsumeDeps,
  consumer: Consumer,
  events: BusEvent[],
  originOf: (event: BusEvent) => Origin | undefined = () => undefined,
): Promise<void> {
  const { aggregateType = null } = consumer;
  const own = events.filter((event) => aggregateType === null || event.aggregateType === aggregateType);
  if (own.length === 0) return;
  try {
    await handleOnce(deps, consumer, own);
  } catch (error) {
    if (isAway(error)) throw error;
    for (const event of own) await handleOrPutAside(deps, consumer, event, originOf(event));
  }
  consumer.handled?.();
}

async function handleOnce(deps: ConsumeDeps, consumer: Consumer, events: BusEvent[]): Promise<void> {
  const handled = await deps.database.transaction(async (tx) => {
    const fresh = await enterInbox(tx, consumer, events, deps.clock.now());
    if (fresh.length > 0) await consumer.handle(tx, fresh);
    return fresh;
  });
  deps.measure?.consumed(consumer.name, handled, events.length - handled.length);
}

async function handleOrPutAside(
  deps: ConsumeDeps,
  consumer: Consumer,
  event: BusEvent,
  origin: Origin | undefined,
): Promise<void> {
  let reason = "";
  for (let tries = 0; tries < TRIES; tries++) {
    try {
      return await handleOnce(deps, consumer, [event]);
    } catch (error) {
      if (isAway(error)) throw error;
      reason = error instanceof Error ? `${error.name}: ${error.message}` : "a thrown value";
    }
  }
  deps.log.error({ consumer: consumer.name, event_id: event.eventId, reason }, "event put aside");
  await putAside(deps, consumer, event, { reason, origin });
}

/** Puts an event aside as a dead letter, for people to look at; once, however often it comes. */
export async function putAside(
  { database, clock, measure }: Pick<ConsumeDeps, "database" | "clock" | "measure">,
  consumer: Pick<Consumer, "name">,
  event: BusEvent,
  { reason, origin }: { reason: string; origin?: Origin | undefined },
): Promise<void> {
  const now = clock.now();
  const isNew = await database.transaction(async (tx) => {
    const fresh = await enterInbox(tx, consumer, [event], now);
    if (fresh.length === 0) return false;
    await tx("dead_letters").insert({
      consumer: consumer.name,
      event_id: event.eventId,
      event: JSON.stringify(event, (_, value) => (typeof value === "string" ? storable(value) : value)),
      reason: storable(reason),
      origin: origin === undefined ? null : (JSON.stringify(origin) as never),
      created_at: now,
    });
    return true;
  });
  if (isNew) measure?.putAside(consumer.name);
}

/**
 * Postgres has no NUL in a text: what brings one is put aside without it, or its partition would stop there.
 */
function storable(text: string): string {
  return text.replaceAll("\0", "\uFFFD");
}

/** Rows go in by event id, so that two batches wait for each other in one order only. */
async function enterInbox(
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

/**
 * Has consumers remember for another 14 days what they have handled of events that are sent again: without it
 * they could forget an event before the last time that it is brought.
 */
export async function keepInMind(
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

/**
 * The bus inside one process: `publish` has every consumer handle the events and resolves after their
 * commits, so events that were not consumed stay in the outbox.
 */
export function createLocalBus(deps: ConsumeDeps): Bus {
  const consumers: Consumer[] = [];
  const running = new Set<Promise<void>>();
  let closed = false;

  async function track(work: Promise<void>): Promise<void> {
    running.add(work);
    try {
      await work;
    } finally {
      running.delete(work);
    }
  }

  return {
    async publish(events) {
      if (closed) throw new Error("The bus is closed");
      const consumed = consumers.map((consumer) => consume(deps, consumer, events));
      await track(Promise.all(consumed).then(() => {}));
    },
    async subscribe(consumer) {
      consumers.push(consumer);
    },
    async health() {
      return closed ? { ok: false, detail: "closed" } : { ok: true };
    },
    async close() {
      closed = true;
      await Promise.allSettled(running);
    },
  };
}
