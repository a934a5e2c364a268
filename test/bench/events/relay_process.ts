import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { Registry } from "prom-client";
import { systemClock } from "../../../src/clock.ts";
import { startLoop } from "../../../src/concurrency/loop.ts";
import { openDatabase } from "../../../src/db/database.ts";
import type { Consumer } from "../../../src/events/bus.ts";
import { openCarrier } from "../../../src/events/carrier.ts";
import { createEventMetrics } from "../../../src/events/event_metrics.ts";
import { createRelay } from "../../../src/events/relay.ts";
import { createShardLeases, LEASE_SECONDS } from "../../../src/events/shards.ts";
import { createWebhookConsumer } from "../../../src/webhooks/consumer.ts";
import { secretBox } from "../../events/support/connection.ts";
import { requestIdOf } from "../../events/support/events.ts";
import { nowMs } from "./load.ts";
import type { Begin, Ended, RelaySettings } from "./relay_child.ts";

/** Runs relay, bus and one consumer. Starts on request, and reports when it has handled enough events. */
const { url, kafka, consumer: wanted } = JSON.parse(process.env.RELAY ?? "") as RelaySettings;
const log = pino({ level: "error" }, process.stderr);
const clock = systemClock;
const database = openDatabase({ url, name: "bench-relay", max: 16, onError: () => {} });
const workerId = randomUUID();
const nothing: Consumer = { name: `nothing-${workerId}`, handle: async () => undefined };
const consumer = wanted === "webhooks" ? createWebhookConsumer({ secretBox, clock }) : nothing;
const ended: Ended = { handled: [], endedAt: 0, startedAt: 0 };
let begun: Begin | undefined;
let count = 0;

const carrier = await openCarrier(kafka, (error) => {
  throw error;
});
const measure = {
  ...createEventMetrics({ registry: new Registry(), clock }),
  consumed(_: string, events: Parameters<Consumer["handle"]>[1]) {
    const at = nowMs();
    count += events.length;
    for (const event of begun?.collects ? events : []) {
      ended.handled.push([Number(requestIdOf(event)), at]);
    }
    if (begun === undefined || count < begun.events || ended.endedAt > 0) return;
    ended.endedAt = at;
    process.send?.(ended);
  },
};
const leases = createShardLeases(database, workerId, 3_600);
await leases.renew();
const bus = carrier.open({ database, clock, log, workerId, leaseSeconds: LEASE_SECONDS, measure });
await bus.subscribe(consumer);
const relay = createRelay({ database, bus, clock, workerId, carrier: carrier.kind, measure });

process.on("message", (begin: Begin) => {
  begun = begin;
  ended.startedAt = nowMs();
  const loop = startLoop({ name: "relay", log, step: relay.step });
  process.once("SIGTERM", async () => {
    await loop.stop();
    await bus.close();
    await leases.release();
    await database.destroy();
    process.exit(0);
  });
});
process.once("disconnect", () => process.exit(1));
process.send?.("ready");
