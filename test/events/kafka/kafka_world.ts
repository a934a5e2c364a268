import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { systemClock } from "../../../src/clock.ts";
import type { Bus } from "../../../src/events/bus.ts";
import { createKafkaClient } from "../../../src/events/kafka/client.ts";
import { createKafkaBus } from "../../../src/events/kafka/kafka_bus.ts";
import { ensureTopics } from "../../../src/events/kafka/topics.ts";
import type { KafkaSettings } from "../../../src/input/event_settings.ts";
import type { Home } from "../support/database.ts";

export const SILENT = pino({ level: "silent" });

/** Topics of a test's own on running brokers, and processes that use them. */
export type KafkaWorld = {
  settings: KafkaSettings;
  /** The bus of one more process. */
  join(): Bus;
  /** What was told to be the end of a process. */
  fatal: Error[];
  dispose(): Promise<void>;
};

/** Makes the topics, with four partitions. */
export async function kafkaWorld(
  home: Home,
  brokers: string[],
  change: Partial<KafkaSettings> = {},
): Promise<KafkaWorld> {
  const settings: KafkaSettings = {
    brokers,
    prefix: `${randomUUID()}.`,
    partitions: 4,
    replication: 1,
    ...change,
  };
  await ensureTopics(createKafkaClient(settings, SILENT), settings);
  const buses: Bus[] = [];
  const fatal: Error[] = [];
  return {
    settings,
    fatal,
    join() {
      const bus = createKafkaBus({
        settings,
        database: home.database,
        clock: systemClock,
        log: SILENT,
        fatal: (error) => fatal.push(error),
      });
      buses.push(bus);
      return bus;
    },
    dispose: async () => void (await Promise.all(buses.map((bus) => bus.close()))),
  };
}
