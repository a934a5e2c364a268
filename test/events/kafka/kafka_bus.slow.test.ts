import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { StartError } from "../../../src/config.ts";
import type { BusEvent, Consumer } from "../../../src/events/bus.ts";
import { createKafkaClient } from "../../../src/events/kafka/client.ts";
import { createKafkaProducer } from "../../../src/events/kafka/producer.ts";
import { groupOf, topics } from "../../../src/events/kafka/settings.ts";
import { ensureTopics } from "../../../src/events/kafka/topics.ts";
import { kafkaForTests, type TestKafka } from "../../support/kafka.ts";
import { until } from "../../support/process.ts";
import { busEvent, describeBus, keeping, labelOf } from "../describe_bus.ts";
import { useDatabase } from "../support/database.ts";
import { type KafkaWorld, kafkaWorld, readTopic, SILENT } from "./kafka_world.ts";

async function membersOf({ settings }: KafkaWorld, consumer: Pick<Consumer, "name">): Promise<string[]> {
  const admin = createKafkaClient(settings, SILENT).admin();
  await admin.connect();
  const { groups } = await admin.describeGroups([groupOf(settings, consumer)]);
  await admin.disconnect();
  return groups.flatMap(({ members }) => members.map(({ memberId }) => memberId));
}

const START_MS = 10 * 60_000;
const { missing, start } = await kafkaForTests();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("the bus over Kafka", { timeout: 60_000 }, () => {
  const home = useDatabase();
  let kafka: TestKafka;
  beforeAll(async () => {
    kafka = await start();
  }, START_MS);
  afterAll(() => kafka?.stop());

  describeBus("the bus", home, async () => {
    const world = await kafkaWorld(home, kafka.brokers);
    return { bus: world.join(), dispose: world.dispose };
  });

  describe("several processes", () => {
    let world: KafkaWorld;
    beforeEach(async () => {
      world = await kafkaWorld(home, kafka.brokers);
    });
    afterEach(() => world.dispose());

    test("share the partitions, and handle each event once while processes join and leave", async () => {
      const name = `test-${randomUUID()}`;
      const handled: { process: number; event: BusEvent }[] = [];
      const joined = async (process: number) => {
        const bus = world.join();
        await bus.subscribe({
          name,
          async handle(_, events) {
            handled.push(...events.map((event) => ({ process, event })));
          },
        });
        return bus;
      };
      const first = await joined(1);
      const processes = () => new Set(handled.map(({ process }) => process)).size;
      // The first process accepts other members only with its next heartbeat, seconds later.
      let published = 0;
      for (; published < 400 || processes() === 1; published += 20) {
        await first.publish(Array.from({ length: 20 }, (_, n) => busEvent(String(published + n))));
        if (published === 100) await joined(2);
        if (published === 200) await (await joined(3)).close();
        await sleep(50);
      }
      await until("all are handled", async () => handled.length >= published);
      const labels = handled.map(({ event }) => Number(labelOf(event))).sort((one, other) => one - other);
      expect(labels).toEqual(Array.from({ length: published }, (_, n) => n));
      expect(world.fatal).toEqual([]);
    });

    /* A process that does not leave keeps its partitions for a minute, and nobody handles their events. */
    test("leave the group if they are closed while they join it", async () => {
      const consumer = { name: `test-${randomUUID()}`, handle: async () => undefined };
      const staying = world.join();
      await staying.subscribe(consumer);
      await until("one is in", async () => (await membersOf(world, consumer)).length === 1);
      for (const afterMs of [0, 5, 50, 500]) {
        const bus = world.join();
        await bus.subscribe(consumer);
        await sleep(afterMs);
        await bus.close();
        expect(await membersOf(world, consumer), `it ended after ${afterMs} ms`).toHaveLength(1);
      }
    });

    test("remain in the group while they handle a slow event", async () => {
      const slow = await kafkaWorld(home, kafka.brokers, {}, { leaseSeconds: 2 });
      const consumer = { name: `test-${randomUUID()}` };
      const started = Promise.withResolvers<void>();
      const handled: BusEvent[] = [];
      const bus = slow.join();
      await bus.subscribe({
        ...consumer,
        async handle(_, events) {
          started.resolve();
          await sleep(8_000);
          handled.push(...events);
        },
      });
      await bus.publish([busEvent("slow")]);
      await started.promise;
      const before = await membersOf(slow, consumer);
      await until("it is handled", async () => handled.length === 1);
      expect(before).toHaveLength(1);
      expect(await membersOf(slow, consumer)).toEqual(before);
      expect(slow.fatal).toEqual([]);
      await slow.dispose();
    });

    /* After such a freeze, the library's own `commitOffsets` can retry ten times and then end the reader. */
    test("continue after a freeze during which the group gave their partitions to others", async () => {
      const frozen = await kafkaWorld(home, kafka.brokers, {}, { leaseSeconds: 2 });
      const consumer = { name: `test-${randomUUID()}` };
      const handled: BusEvent[] = [];
      let frozenMs = 9_000;
      let before: string[] = [];
      const bus = frozen.join();
      await bus.subscribe({
        ...consumer,
        async handle(_, events) {
          if (frozenMs > 0) before = await membersOf(frozen, consumer);
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, frozenMs);
          handled.push(...events);
        },
      });
      await bus.publish([busEvent("frozen")]);
      await until("it is handled", async () => handled.length === 1);
      frozenMs = 0;
      await bus.publish([busEvent("next")]);
      await until("the next one is handled", async () => handled.length > 1, 30_000);
      expect(handled.map(labelOf)).toEqual(["frozen", "next"]);
      expect(await membersOf(frozen, consumer)).not.toEqual(before);
      expect(frozen.fatal).toEqual([]);
      await frozen.dispose();
    });

    test("continue after a restart with the events that they had not handled", async () => {
      const { consumer, handled } = keeping();
      const before = world.join();
      await before.subscribe(consumer);
      await before.publish([busEvent("before")]);
      await until("it is handled", async () => handled.length === 1);
      await before.close();
      const publisher = world.join();
      await publisher.publish([busEvent("meanwhile")]);
      await world.join().subscribe(consumer);
      await until("it is handled", async () => handled.length === 2);
      expect(handled.map(labelOf)).toEqual(["before", "meanwhile"]);
    });

    test("write records of one partition in order, even if they exceed the size of a broker's batch", async () => {
      const topic = `${world.settings.prefix}${topics.audit}`;
      const producer = createKafkaProducer(createKafkaClient(world.settings, SILENT));
      const values = Array.from({ length: 40 }, (_, n) => String(n).padStart(60 * 1024, "0"));
      await producer.send(values.map((value) => ({ topic, partition: 1, message: { key: "k", value } })));
      await producer.close();
      const read = await readTopic(world.settings, topics.audit, values.length);
      expect(read.map(({ value }) => Number(value))).toEqual(values.map(Number));
    });

    test("write to a topic that was created again with fewer partitions", async () => {
      const [bus, client] = [world.join(), createKafkaClient(world.settings, SILENT)];
      const topic = `${world.settings.prefix}${topics.lifecycle}`;
      const twenty = () => Array.from({ length: 20 }, (_, n) => busEvent(String(n)));
      await bus.publish(twenty());
      const admin = client.admin();
      await admin.connect();
      await admin.deleteTopics({ topics: [topic] });
      await until("it is gone", async () => !(await admin.listTopics()).includes(topic));
      await admin.disconnect();
      await ensureTopics(client, { ...world.settings, partitions: 1 });
      const sent = () =>
        bus.publish(twenty()).then(
          () => true,
          () => false,
        );
      await until("it is written to", sent, 20_000);
      expect(
        (await readTopic(world.settings, topics.lifecycle, 20)).every((one) => one.partition === 0),
      ).toBe(true);
    });

    test("store unreadable records and failing events once as dead letters, and copy them to the dead-letter topic", async () => {
      const { consumer, handled } = keeping((event) => {
        if (labelOf(event) === "poison") throw new TypeError("cannot read it");
      });
      const bus = world.join();
      const { prefix } = world.settings;
      const topic = `${prefix}${topics.lifecycle}`;
      const producer = createKafkaProducer(createKafkaClient(world.settings, SILENT));
      await producer.send([{ topic, partition: 0, message: { key: "x", value: "not ours\0" } }]);
      const poison = busEvent("poison");
      await bus.publish([poison, busEvent("good")]);
      await bus.subscribe(consumer);
      await until("the good one is handled", async () => handled.length === 1);
      const letters = () =>
        home.database("dead_letters").where({ consumer: consumer.name }).orderBy("reason");
      await until("both are carried", async () => {
        const rows = await letters();
        return rows.length === 2 && rows.every(({ carried_at }) => carried_at !== null);
      });
      const [thrown, unreadable] = await letters();
      expect(thrown).toMatchObject({ event_id: poison.eventId, reason: "TypeError: cannot read it" });
      expect(unreadable).toMatchObject({ origin: { topic, partition: 0, offset: "0" } });
      const names = ["ce_id", "deputize_consumer", "deputize_reason", "deputize_origin_topic"];
      const read = await readTopic(world.settings, topics.deadLetters, 2);
      const seen = read.map(({ headers }) => names.map((name) => headers[name]));
      await producer.close();
      expect(seen).toContainEqual([poison.eventId, consumer.name, "TypeError: cannot read it", topic]);
    });
  });

  /* Without our workaround, each connection sets a timer every millisecond and causes warnings. */
  test("an idle connection sets no timers", async () => {
    const warnings: Error[] = [];
    const noted = (warning: Error) => void warnings.push(warning);
    process.on("warning", noted);
    const { settings, dispose } = await kafkaWorld(home, kafka.brokers);
    const producer = createKafkaProducer(createKafkaClient(settings, SILENT));
    await producer.check(`${settings.prefix}${topics.lifecycle}`);
    await sleep(200);
    const timers = vi.spyOn(globalThis, "setTimeout");
    await sleep(1_000);
    expect(timers.mock.calls.length).toBeLessThan(10);
    timers.mockRestore();
    await producer.close();
    await dispose();
    process.off("warning", noted);
    expect(warnings.filter(({ name }) => name === "TimeoutNegativeWarning")).toEqual([]);
  });

  test("ensureTopics names the wrong setting if there are fewer brokers than replicas", async () => {
    const settings = { brokers: kafka.brokers, prefix: `${randomUUID()}.`, partitions: 1, replication: 9 };
    const refusal = ensureTopics(createKafkaClient(settings, SILENT), settings);
    await expect(refusal).rejects.toThrow(StartError);
    await expect(refusal).rejects.toThrow("lifecycle.v1: KAFKA_REPLICATION exceeds the number of brokers");
  });

  test("ensureTopics creates missing topics, and only reports differences in existing ones", async () => {
    const { settings, dispose } = await kafkaWorld(home, kafka.brokers);
    const client = createKafkaClient(settings, SILENT);
    expect(await ensureTopics(client, settings)).toEqual({ made: [], differing: [] });
    const { made, differing } = await ensureTopics(client, { ...settings, partitions: 2 });
    expect(made).toEqual([]);
    expect(differing).toEqual([
      `${settings.prefix}deputize.lifecycle.v1 has 4 partitions, not 2`,
      `${settings.prefix}deputize.audit.v1 has 4 partitions, not 2`,
      `${settings.prefix}deputize.dlq.v1 has 3 partitions, not 2`,
    ]);
    await dispose();
  });
});
