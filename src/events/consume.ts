import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { isAway } from "../db/errors.ts";
import type { Logger } from "../log.ts";
import type { Bus, BusEvent, Consumer } from "./bus.ts";
import { type Origin, putAside } from "./dead_letters.ts";
import type { EventMetrics } from "./event_metrics.ts";
import { enterInbox } from "./inbox.ts";
import type { Measurements } from "./measurements.ts";

/** Dependencies of a consumer. */
export type ConsumeDeps = {
  database: Database;
  clock: Clock;
  log: Logger;
  measure?: EventMetrics | undefined;
};

/**
 * Dependencies of a bus. `workerId` is the worker that relays to the bus. `leaseSeconds` is how long its
 * shards stay reserved after it dies. The bus adds its own states to `measurements`.
 */
export type BusDeps = ConsumeDeps & {
  workerId: string;
  leaseSeconds: number;
  measurements?: Pick<Measurements, "add"> | undefined;
};

const TRIES = 3;

/**
 * Lets a consumer handle each of the events exactly once, by means of its inbox. If a batch fails, handles
 * its events one by one. An event that fails three times becomes a dead letter. If the database is
 * unavailable, throws and creates no dead letters.
 */
export async function consume(
  deps: ConsumeDeps,
  consumer: Consumer,
  events: BusEvent[],
  originOf: (event: BusEvent) => Origin | undefined = () => undefined,
): Promise<void> {
  const { aggregateTypes: types } = consumer;
  const own = types === undefined ? events : events.filter((event) => types.includes(event.aggregateType));
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

/** Returns a bus within one process. `publish` resolves after every consumer has committed. */
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
