import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { BusEvent, Consumer } from "./bus.ts";
import type { EventMetrics } from "./event_metrics.ts";
import { enterInbox } from "./inbox.ts";

/** Where a bus brought an event from. */
export type Origin = { topic: string; partition: number; offset: string };

/** The type of what was put aside and is no event. */
export const UNREADABLE = "unreadable";

/** Where a dead letter is stored and counted. */
type Deps = { database: Database; clock: Clock; measure?: EventMetrics | undefined };

/** Puts an event aside as a dead letter, for people to look at; once, however often it comes. */
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

/**
 * Postgres has no NUL in a text: what brings one is put aside without it, or its partition would stop there.
 */
function storable(text: string): string {
  return text.replaceAll("\0", "\uFFFD");
}
