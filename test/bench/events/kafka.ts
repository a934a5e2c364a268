import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { createKafkaClient } from "../../../src/events/kafka/client.ts";
import { ensureTopics } from "../../../src/events/kafka/topics.ts";
import type { KafkaSettings } from "../../../src/input/event_settings.ts";
import { kafkaForTests } from "../../support/kafka.ts";

/** A Kafka for the bench: topics of its own for each measurement. */
export type BenchKafka = { topics(): Promise<KafkaSettings>; stop(): Promise<void> };

/** Starts one broker, or uses the ones that KAFKA_BROKERS_TEST names. Says so when there can be none. */
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
