import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { createKafkaClient } from "../../../src/events/kafka/client.ts";
import { ensureTopics } from "../../../src/events/kafka/topics.ts";
import type { KafkaSettings } from "../../../src/input/event_settings.ts";
import { kafkaForTests } from "../../support/kafka.ts";

/** Kafka for the bench. Each measurement gets separate topics. */
export type BenchKafka = { topics(): Promise<KafkaSettings>; stop(): Promise<void> };

/** Starts one broker, or uses those in KAFKA_BROKERS_TEST. Returns undefined if Kafka is unavailable. */
export async function startBenchKafka(): Promise<BenchKafka | undefined> {
  const { missing, start } = await kafkaForTests();
  if (missing !== undefined) {
    console.error(`SKIPPED over Kafka, missing: ${missing}`);
    return undefined;
  }
  const { brokers, stop } = await start();
  return {
    async topics() {
      const settings = { brokers, prefix: `${randomUUID()}.`, partitions: 12, replication: 1 };
      await ensureTopics(createKafkaClient(settings, pino({ level: "silent" })), settings);
      return settings;
    },
    stop,
  };
}
