import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { createLocalBus } from "../../../src/events/consume.ts";
import { createRelay } from "../../../src/events/relay.ts";
import { createShardLeases } from "../../../src/events/shards.ts";
import { createAddressPolicy, createResolve } from "../../../src/webhooks/callback_address.ts";
import { createWebhookConsumer } from "../../../src/webhooks/consumer.ts";
import { createDispatcher, type DispatcherDeps } from "../../../src/webhooks/dispatcher.ts";
import { createSender } from "../../../src/webhooks/sign_and_send.ts";
import { secretBox as testBox } from "./connection.ts";
import type { Home } from "./database.ts";
import { type VirtualClock, virtualClock } from "./time.ts";

/** The parts of a worker, with a clock that the test moves. */
export type Harness = {
  clock: VirtualClock;
  /** Relays everything in the outbox. */
  relay(): Promise<void>;
  /** Sends due deliveries until none is due. */
  deliver(): Promise<void>;
  run(): Promise<void>;
  /** The time of the next attempt, or undefined if nothing waits. */
  nextAttempt(): Promise<Date | undefined>;
  deliveries(connectionId: string): Promise<Delivery[]>;
};

/** A delivery's state and the results of its attempts. */
export type Delivery = {
  deliveryId: string;
  eventType: string;
  state: string;
  attempts: { outcome: string; status: number | null; detail: string | null; excerpt: string | null }[];
};

/** Creates the parts of a worker that owns every shard. */
export async function startHarness(
  home: Pick<Home, "database">,
  change: Partial<DispatcherDeps> & { clock?: VirtualClock } = {},
): Promise<Harness> {
  const { database } = home;
  const { clock = virtualClock(), secretBox = testBox } = change;
  const log = pino({ level: "silent" });
  const workerId = randomUUID();
  await database("relay_workers").delete();
  await database("relay_shards").update({ owner: null, held_until: new Date(0) });
  await createShardLeases(database, workerId, 3600).renew();
  const bus = createLocalBus({ database, clock, log });
  await bus.subscribe(createWebhookConsumer({ secretBox, clock }));
  const relay = createRelay({ database, bus, clock, workerId });
  const policy = createAddressPolicy({ development: true, allowedCidrs: ["127.0.0.0/8"] });
  const limits = { dns: 500, connect: 1000, body: 500, deadline: 2000 };
  const send = createSender({ policy, resolve: createResolve(), limits });
  const dispatcher = createDispatcher({
    ...{ database, clock, secretBox, send },
    word: "service",
    log,
    random: () => 0.5,
    ...change,
  });

  const harness: Harness = {
    clock,
    async relay() {
      while (await relay.step());
    },
    async deliver() {
      while (await dispatcher.step()) await dispatcher.drain();
    },
    async run() {
      await harness.relay();
      await harness.deliver();
    },
    async nextAttempt() {
      const row = await database("webhook_deliveries")
        .where({ state: "pending" })
        .orderBy("next_attempt_at")
        .first("next_attempt_at");
      return row?.next_attempt_at ?? undefined;
    },
    async deliveries(connectionId) {
      const rows = await database("webhook_deliveries as d")
        .join("webhook_endpoints as e", "e.endpoint_id", "d.endpoint_id")
        .where("e.connection_id", connectionId)
        .orderBy("d.aggregate_seq")
        .select("d.delivery_id", "d.event_type", "d.state");
      return Promise.all(rows.map(read));
    },
  };

  async function read(row: { delivery_id: string; event_type: string; state: string }): Promise<Delivery> {
    const attempts = await database("webhook_attempts")
      .where({ delivery_id: row.delivery_id })
      .orderBy("attempt");
    return {
      deliveryId: row.delivery_id,
      eventType: row.event_type,
      state: row.state,
      attempts: attempts.map(({ outcome, status, detail, response_excerpt }) => ({
        outcome,
        status,
        detail,
        excerpt: response_excerpt?.toString() ?? null,
      })),
    };
  }

  return harness;
}
