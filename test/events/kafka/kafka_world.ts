import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { systemClock } from "../../../src/clock.ts";
import type { Bus } from "../../../src/events/bus.ts";
import { createKafkaClient } from "../../../src/events/kafka/client.ts";
import { createKafkaBus } from "../../../src/events/kafka/kafka_bus.ts";
import { ensureTopics } from "../../../src/events/kafka/topics.ts";
import { LEASE_SECONDS } from "../../../src/events/shards.ts";
import type { KafkaSettings } from "../../../src/input/event_settings.ts";
import { until } from "../../support/process.ts";
import type { Home } from "../support/database.ts";

export const SILENT = pino({ level: "silent" });

/** Topics for one test on running brokers, and processes that use them. */
export type KafkaWorld = {
  settings: KafkaSettings;
  join(workerId?: string): Bus;
  /** Fatal errors of the buses. In production, each would end its process. */
  fatal: Error[];
  dispose(): Promise<void>;
};

/** Creates the topics, with four partitions. */
export async function kafkaWorld(
  home: Pick<Home, "database">,
  brokers: string[],
  change: Partial<KafkaSettings> = {},
  { repairSeconds, leaseSeconds = LEASE_SECONDS }: { repairSeconds?: number; leaseSeconds?: number } = {},
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
    join(workerId = randomUUID()) {
      const bus = createKafkaBus({
        settings,
        database: home.database,
        clock: systemClock,
        log: SILENT,
        workerId,
        leaseSeconds,
        ...(repairSeconds !== undefined && { repairSeconds }),
        fatal: (error) => fatal.push(error),
      });
      buses.push(bus);
      return bus;
    },
    dispose: async () => void (await Promise.all(buses.map((bus) => bus.close()))),
  };
}

/** A record as a consumer in any language sees it. */
export type ReadRecord = {
  key: string;
  value: string;
  partition: number;
  headers: Record<string, string | undefined>;
};

/** Reads a topic from its beginning until `count` records have arrived, and for another half second. */
export async function readTopic(settings: KafkaSettings, name: string, count: number): Promise<ReadRecord[]> {
  const seen: ReadRecord[] = [];
  const client = createKafkaClient(settings, SILENT);
  const reader = client.consumer({ groupId: `${settings.prefix}${randomUUID()}`, maxWaitTimeInMs: 100 });
  await reader.connect();
  await reader.subscribe({ topics: [`${settings.prefix}${name}`], fromBeginning: true });
  await reader.run({
    async eachMessage({ partition, message: { key, value, headers = {} } }) {
      const texts = Object.entries(headers).map(([header, text]) => [header, text?.toString()]);
      const read = { key: String(key), value: String(value), partition };
      seen.push({ ...read, headers: Object.fromEntries(texts) });
    },
  });
  await until(`${count} records of ${name}`, async () => seen.length >= count, 60_000);
  await sleep(500);
  await reader.disconnect();
  return seen;
}
