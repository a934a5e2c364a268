import { randomUUID } from "node:crypto";
import { afterAll, beforeAll } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { putAside } from "../../../src/events/dead_letters.ts";
import { accountEventKinds, eventKinds } from "../../../src/events/kinds.ts";
import { toEvent } from "../../../src/events/relay.ts";
import { createShardLeases } from "../../../src/events/shards.ts";
import { historyEventType } from "../../../src/history/history_entry.ts";
import type { KafkaSettings } from "../../../src/input/event_settings.ts";
import { startWholeApi } from "../../http/walk/world.ts";
import type { TestApi } from "../../support/api.ts";
import type { TestKafka } from "../../support/kafka.ts";
import { type KafkaWorld, kafkaWorld } from "../kafka/kafka_world.ts";
import { everyEvent } from "./every_event.ts";

const START_MS = 10 * 60_000;

export const LIFECYCLE = [...Object.keys(eventKinds), ...Object.keys(accountEventKinds)];
export const HISTORY: readonly string[] = historyEventType.options;

/** The number of history entries that {@link everyEvent} causes. */
export const ENTRIES = 6;

type PublishedWorld = {
  readonly settings: KafkaSettings;
  /** The number of different lifecycle events. */
  readonly events: number;
};

/**
 * Creates topics on a real Kafka. They contain every kind of {@link LIFECYCLE} twice, every kind of history
 * entry, and a dead letter.
 */
export function publishedWorld(start: () => Promise<TestKafka>): PublishedWorld {
  let kafka: TestKafka;
  let api: TestApi;
  let world: KafkaWorld;
  let count: number;
  beforeAll(async () => {
    kafka = await start();
    api = await startWholeApi();
    world = await kafkaWorld({ database: api.db }, kafka.brokers);
    await everyEvent(api);
    const workerId = randomUUID();
    await createShardLeases(api.db, workerId, 3600).renew();
    const events = (await api.db("outbox").orderBy("id")).map(toEvent);
    count = events.length;
    const [first] = events;
    if (first === undefined) throw new Error("The outbox is empty");
    const aside = { reason: "TypeError: not for us" };
    await putAside({ database: api.db, clock: systemClock }, { name: "webhooks" }, first, aside);
    const bus = world.join(workerId);
    await bus.publish(events);
    await bus.publish(events);
  }, START_MS);
  afterAll(async () => {
    await world?.dispose();
    await api?.stop();
    await kafka?.stop();
  });
  return {
    get settings() {
      return world.settings;
    },
    get events() {
      return count;
    },
  };
}
