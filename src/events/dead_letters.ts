import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { BusEvent, Consumer } from "./bus.ts";
import type { EventMetrics } from "./event_metrics.ts";
import { enterInbox } from "./inbox.ts";

/** The position in Kafka from which a bus read an event. */
export type Origin = { topic: string; partition: number; offset: string };

/** The type of a dead letter whose record is not a readable event. */
export const UNREADABLE = "unreadable";

type Deps = { database: Database; clock: Clock; measure?: EventMetrics | undefined };

/** Stores an event as a dead letter, and only once if the event arrives several times. */
export async function putAside(
  { database, clock, measure }: Deps,
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

/** Replaces NUL, which a Postgres text cannot contain. A failed insert would stop the partition. */
function storable(text: string): string {
  return text.replaceAll("\0", "\uFFFD");
}
