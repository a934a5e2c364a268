import type { Clock } from "../../clock.ts";
import type { Transaction } from "../../db/database.ts";
import type { Reader } from "../published.ts";

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
