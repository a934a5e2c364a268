import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Admin } from "kafkajs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import type { Bus } from "../../../src/events/bus.ts";
import { createKafkaClient } from "../../../src/events/kafka/client.ts";
import { readLag } from "../../../src/events/kafka/lag.ts";
import { topics } from "../../../src/events/kafka/settings.ts";
import { ensureTopics } from "../../../src/events/kafka/topics.ts";
import { createRelay } from "../../../src/events/relay.ts";
import { createShardLeases } from "../../../src/events/shards.ts";
import { kafkaForTests, type TestKafka } from "../../support/kafka.ts";
import { until } from "../../support/process.ts";
import { keeping } from "../describe_bus.ts";
import { makeConnection } from "../support/connection.ts";
import { useDatabase } from "../support/database.ts";
import { append, deniedEvent, requestIdOf } from "../support/events.ts";
import { type KafkaWorld, kafkaWorld, readTopic, SILENT } from "./kafka_world.ts";

const START_MS = 10 * 60_000;
const REPAIR_SECONDS = 1;
const { missing, start } = await kafkaForTests();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("events that Kafka lost", { timeout: 120_000 }, () => {
  const home = useDatabase();
  let kafka: TestKafka;
  let world: KafkaWorld;
  let admin: Admin;
  let topic: string;
  beforeAll(async () => {
    kafka = await start();
    await home.database("event_way").update({ way: "kafka" });
  }, START_MS);
  afterAll(() => kafka?.stop());
  beforeEach(async () => {
    await home.database.raw("truncate outbox, published_events, inbox, event_repairs");
    world = await kafkaWorld(home, kafka.brokers, {}, { repairSeconds: REPAIR_SECONDS });
    topic = `${world.settings.prefix}${topics.lifecycle}`;
    admin = createKafkaClient(world.settings, SILENT).admin();
    await admin.connect();
  });
  afterEach(async () => {
    await world.dispose();
    await admin.disconnect();
  });

  async function publish(bus: Bus, ids: readonly string[]): Promise<void> {
    const workerId = randomUUID();
    await home.database("relay_workers").delete();
    await home.database("relay_shards").update({ owner: null, held_until: new Date(0) });
    await createShardLeases(home.database, workerId).renew();
    const relay = createRelay({
      database: home.database,
      bus,
      clock: systemClock,
      workerId,
      carrier: "kafka",
    });
    const made = Array.from({ length: 4 }, () => makeConnection(home.database, null));
    const connections = await Promise.all(made);
    for (const [n, id] of ids.entries()) {
      const connection = connections[n % 4];
      if (connection !== undefined) await append(home.database, deniedEvent(connection, id));
    }
    while (await relay.step());
  }

  const named = (name: string, count: number) => Array.from({ length: count }, (_, n) => `${name}-${n}`);

  async function deleteRecords(): Promise<void> {
    const ends = await admin.fetchTopicOffsets(topic);
    const written = ends.filter(({ high }) => high !== "0");
    await admin.deleteTopicRecords({
      topic,
      partitions: written.map(({ partition, high }) => ({ partition, offset: high })),
    });
  }

  test("arrive again once if records were deleted before they were read", async () => {
    const { consumer, handled } = keeping();
    const publisher = world.join();
    await publish(publisher, named("lost", 40));
    await deleteRecords();
    await publish(publisher, named("kept", 20));
    await world.join().subscribe(consumer);
    await until("all are handled", async () => handled.length >= 60, 60_000);
    await sleep(3 * REPAIR_SECONDS * 1_000);
    expect(handled.map(requestIdOf).sort()).toEqual([...named("lost", 40), ...named("kept", 20)].sort());
    expect(world.fatal).toEqual([]);
  });

  test("arrive again if their topic was deleted and created again", async () => {
    const { consumer, handled } = keeping();
    const before = world.join();
    await before.subscribe(consumer);
    await publish(before, named("first", 8));
    await until("they are handled", async () => handled.length === 8);
    await before.close();
    const publisher = world.join();
    await publish(publisher, named("lost", 12));
    await admin.deleteTopics({ topics: [topic] });
    await until("it is gone", async () => !(await admin.listTopics()).includes(topic));
    await ensureTopics(createKafkaClient(world.settings, SILENT), world.settings);
    await world.join().subscribe(consumer);
    await until("all are handled", async () => handled.length >= 20, 90_000);
    expect(handled.map(requestIdOf).sort()).toEqual([...named("first", 8), ...named("lost", 12)].sort());
  });

  test("do not include events that still wait for a slow reader", async () => {
    const { consumer, handled } = keeping();
    const bus = world.join();
    const gate = Promise.withResolvers<void>();
    await bus.subscribe({
      ...consumer,
      async handle(tx, events) {
        await gate.promise;
        await consumer.handle(tx, events);
      },
    });
    await publish(bus, named("waits", 4));
    await sleep(5 * REPAIR_SECONDS * 1_000);
    const lags = await readLag(admin, topic, `${world.settings.prefix}deputize.${consumer.name}`);
    expect(lags.reduce((sum, { lag }) => sum + lag, 0)).toBe(4);
    expect(await readTopic(world.settings, topics.lifecycle, 4)).toHaveLength(4);
    gate.resolve();
    await until("they are handled", async () => handled.length === 4);
  });
});
