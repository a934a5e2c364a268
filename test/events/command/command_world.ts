import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { type Clock, systemClock } from "../../../src/clock.ts";
import type { BusEvent } from "../../../src/events/bus.ts";
import { createEventsCommands, type EventsCommands } from "../../../src/events/command/events_command.ts";
import { createLocalBus } from "../../../src/events/consume.ts";
import { putAside } from "../../../src/events/dead_letters.ts";
import { createRelay } from "../../../src/events/relay.ts";
import { createShardLeases } from "../../../src/events/shards.ts";
import type { KafkaSettings } from "../../../src/input/event_settings.ts";
import { readers } from "../../../src/installation/readers.ts";
import { createWebhookConsumer } from "../../../src/webhooks/consumer.ts";
import { secretBox } from "../support/connection.ts";
import type { Home } from "../support/database.ts";

export type Ended = { status: number; out: string; err: string };

/** Runs a command in this process. */
export async function call(
  home: Pick<Home, "url">,
  work: (commands: EventsCommands) => Promise<number>,
  { clock = systemClock, kafka }: { clock?: Clock; kafka?: KafkaSettings } = {},
): Promise<Ended> {
  const said = { out: "", err: "" };
  const stream = (name: keyof typeof said) => ({
    write: (text: string) => {
      said[name] += text;
    },
  });
  const streams = { out: stream("out"), err: stream("err") };
  const status = await work(createEventsCommands({ url: home.url, clock, readers, kafka, ...streams }));
  return { status, ...said };
}

export const json = ({ out }: Ended) => JSON.parse(out);

/** Stores an event as a dead letter of a consumer. Returns the event. */
export async function letter(
  { database }: Pick<Home, "database">,
  event: Partial<BusEvent> = {},
  { consumer = "webhooks", reason = "TypeError: no", at = new Date() } = {},
): Promise<BusEvent> {
  const whole = { ...anEvent(), ...event };
  await putAside({ database, clock: { now: () => at } }, { name: consumer }, whole, { reason });
  return whole;
}

/** Returns an event of a connection. The event is not stored in any table. */
export function anEvent(): BusEvent {
  const aggregateId = randomUUID();
  return {
    eventId: randomUUID(),
    type: "delegation.denied",
    aggregateType: "connection",
    aggregateId,
    aggregateSeq: 1,
    schemaVersion: 1,
    payload: JSON.stringify({ event: "delegation.denied", connection_id: aggregateId }),
    headers: {},
    createdAt: new Date("2026-11-20T10:00:00.000Z"),
  };
}

/** Relays the outbox until it is empty, like a worker with the webhook consumer. */
export async function relayAll({ database }: Pick<Home, "database">): Promise<void> {
  const [workerId, log] = [randomUUID(), pino({ level: "silent" })];
  await database("relay_workers").delete();
  await database("relay_shards").update({ owner: null, held_until: new Date(0) });
  await createShardLeases(database, workerId, 3600).renew();
  const bus = createLocalBus({ database, clock: systemClock, log });
  await bus.subscribe(createWebhookConsumer({ secretBox, clock: systemClock }));
  const relay = createRelay({ database, bus, clock: systemClock, workerId });
  while (await relay.step());
}
