import type { KafkaSettings } from "../../input/event_settings.ts";
import type { Bus, BusEvent } from "../bus.ts";
import type { BusDeps } from "../consume.ts";
import type { Reader } from "../published.ts";
import { startDeadLetterLoop } from "./carry_dead_letters.ts";
import { createKafkaClient } from "./client.ts";
import { type KafkaConsumer, startKafkaConsumer } from "./consumer.ts";
import { explainFailure } from "./explain_failure.ts";
import { startHistoryLoop } from "./history.ts";
import { lagState, storingReports } from "./lag.ts";
import { createKafkaProducer, measuredProducer, type PlacedRecord, partitionFor } from "./producer.ts";
import { toRecord } from "./records.ts";
import { startRepairLoop } from "./repair.ts";
import { groupOf, topics } from "./settings.ts";

/**
 * Dependencies of the bus over Kafka. After a call of `fatal`, the process must end. `repairSeconds` is the
 * interval between searches for events that Kafka has lost.
 */
export type KafkaBusDeps = BusDeps & {
  settings: KafkaSettings;
  fatal(error: Error): void;
  repairSeconds?: number;
};

const HEALTH_MS = 3_000;

/**
 * Creates the bus over Kafka. `publish` resolves when all in-sync replicas have the records. Each consumer
 * has a consumer group with its name, and processes share the partitions.
 */
export function createKafkaBus({ settings, repairSeconds, ...deps }: KafkaBusDeps): Bus {
  const client = createKafkaClient(settings, deps.log);
  const producer = measuredProducer(createKafkaProducer(client), deps);
  const consumers: KafkaConsumer[] = [];
  const lifecycle = `${settings.prefix}${topics.lifecycle}`;
  const groups: string[] = [];
  const lag = lagState(client, lifecycle, groups);
  deps.measurements?.add(storingReports(lag, deps.database));
  const deadLetters = startDeadLetterLoop({
    ...deps,
    producer,
    topic: `${settings.prefix}${topics.deadLetters}`,
  });
  const history = startHistoryLoop({ ...deps, producer, topic: `${settings.prefix}${topics.audit}` });
  const answers = () => producer.check(lifecycle);
  const readers: Reader[] = [];
  const repair = startRepairLoop({
    ...deps,
    readers,
    readLag: (reader) => producer.lagOf(lifecycle, groupOf(settings, reader)),
    publish,
    ...(repairSeconds !== undefined && { seconds: repairSeconds }),
  });
  let closed = false;

  async function place(events: readonly BusEvent[]): Promise<PlacedRecord[]> {
    const count = await producer.partitionsOf(lifecycle);
    return events.map((event) => {
      const message = toRecord(event);
      return { topic: lifecycle, partition: partitionFor(message.key, count), message };
    });
  }

  async function publish(events: BusEvent[]): Promise<void> {
    await explaining(async () => producer.send(await place(events)));
  }

  async function explaining(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      throw await explainFailure(error, settings);
    }
  }

  return {
    async publish(events) {
      if (closed) throw new Error("The bus is closed");
      await publish(events);
    },
    async subscribe(consumer) {
      const groupId = groupOf(settings, consumer);
      await explaining(async () => {
        consumers.push(
          await startKafkaConsumer({ ...deps, client, answers }, consumer, { topic: lifecycle, groupId }),
        );
        groups.push(groupId);
      });
      readers.push(consumer);
    },
    async health() {
      if (closed) return { ok: false, detail: "closed" };
      const asked = answers().then(
        () => ({ ok: true }),
        async (error: unknown) => ({ ok: false, detail: (await explainFailure(error, settings)).message }),
      );
      return Promise.race([asked, afterwards(HEALTH_MS)]);
    },
    async close() {
      closed = true;
      await Promise.allSettled(consumers.map((consumer) => consumer.close()));
      await Promise.all([deadLetters.stop(), history.stop(), repair.stop()]);
      await Promise.all([producer.close(), lag.close()]);
    },
  };
}

async function afterwards(ms: number): Promise<{ ok: boolean; detail: string }> {
  return new Promise((resolve) => {
    setTimeout(() => resolve({ ok: false, detail: "Kafka does not answer" }), ms).unref();
  });
}
