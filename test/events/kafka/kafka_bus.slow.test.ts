import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterAll, beforeAll, describe } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { createKafkaClient } from "../../../src/events/kafka/client.ts";
import { createKafkaBus } from "../../../src/events/kafka/kafka_bus.ts";
import type { KafkaSettings } from "../../../src/events/kafka/settings.ts";
import { ensureTopics } from "../../../src/events/kafka/topics.ts";
import { kafkaForTests, type TestKafka } from "../../support/kafka.ts";
import { describeBus } from "../describe_bus.ts";
import { useDatabase } from "../support/database.ts";

const START_MS = 10 * 60_000;
const { missing, start } = await kafkaForTests();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);
const log = pino({ level: "silent" });

describe.skipIf(missing !== undefined)("over Kafka", { timeout: 60_000 }, () => {
  const home = useDatabase();
  let kafka: TestKafka;
  beforeAll(async () => {
    kafka = await start();
  }, START_MS);
  afterAll(() => kafka?.stop());

  describeBus("the bus", home, async () => {
    const settings: KafkaSettings = {
      brokers: kafka.brokers,
      prefix: `${randomUUID()}.`,
      partitions: 4,
      replication: 1,
    };
    await ensureTopics(createKafkaClient(settings, log), settings);
    const buses = new Set<ReturnType<typeof createKafkaBus>>();
    const join = async () => {
      const fatal = (error: Error) => {
        throw error;
      };
      const bus = createKafkaBus({ settings, database: home.database, clock: systemClock, log, fatal });
      buses.add(bus);
      return bus;
    };
    const bus = await join();
    return {
      bus,
      join,
      dispose: async () => void (await Promise.all([...buses].map((each) => each.close()))),
    };
  });
});
