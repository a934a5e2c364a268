import { addSeconds } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { deliveryStates, eventStates, rowsOf } from "../../events/event_states.ts";
import type { MeasuredState } from "../../events/measurements.ts";
import type { Reader } from "../../events/published.ts";
import { judge } from "../alerts.ts";
import { measured } from "../measured.ts";
import { type Figure, figure, type Part } from "../part.ts";

/** Deliveries that are looked at for how many of them were tried before. */
const LOOKED_AT = 20_000;
const HOUR = 60 * 60;

export type EventPartDeps = { database: Database; readers: readonly Reader[] };

/** The outbox, its consumers, what they could not handle, and the history on its way to Kafka. */
export function eventsPart({ database, readers }: EventPartDeps): Part {
  const others = new Set(deliveryStates(database).map(({ name }) => name));
  const states = eventStates(database, readers).filter(({ name }) => !others.has(name));
  return { name: "events", read: (now) => readAll(states, now) };
}

/** Deliveries that are not over, those that are tried again, and endpoints that get nothing. */
export function webhooksPart({ database }: Pick<EventPartDeps, "database">): Part {
  const states = deliveryStates(database);
  return {
    name: "webhooks",
    read: async (now) => [...(await readAll(states, now)), ...(await retriesAndSuspensions(database, now))],
  };
}

/** One state after the other: a part that is slow takes one connection. */
async function readAll(states: readonly MeasuredState[], now: Date): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const state of states) figures.push(...(await measured(state, now)));
  return figures;
}

const OTHERS = `
select (select count(*) filter (where attempts > 0)
        from (select attempts from webhook_deliveries where state = 'pending' limit ${LOOKED_AT}) waiting) as retried,
       (select count(*) from webhook_endpoints
        where state <> 'active' and state = 'suspended' and suspended_at > :hourAgo) as suspended`;

async function retriesAndSuspensions(database: Database, at: Date): Promise<Figure[]> {
  const bindings = { hourAgo: addSeconds(at, -HOUR) };
  const [row] = await rowsOf<{ retried: number; suspended: number }>(database, OTHERS, bindings);
  const { retried = 0, suspended = 0 } = row ?? {};
  return [
    figure({ name: "webhook_deliveries_retried", value: retried, at }),
    figure({
      name: "webhook_endpoints_suspended_lately",
      value: suspended,
      at,
      ...judge(suspended, "DeputizeEndpointSuspended"),
    }),
  ];
}
