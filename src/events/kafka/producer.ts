import {
  type Kafka,
  type Message,
  type PartitionerArgs,
  Partitioners,
  type Producer,
  type RecordMetadata,
} from "kafkajs";
import type { Clock } from "../../clock.ts";
import type { EventMetrics } from "../event_metrics.ts";
import { type PartitionLag, readLag } from "./lag.ts";

/** A record for one partition of one topic. */
export type PlacedRecord = { topic: string; partition: number; message: Message };

/** Writes records to given partitions. */
export type KafkaProducer = {
  /** Rejects if Kafka does not answer, or if the topic does not exist. */
  partitionsOf(topic: string): Promise<number>;
  /** Rejects if Kafka does not currently answer for a topic. */
  check(topic: string): Promise<void>;
  /** Rejects if Kafka does not answer. */
  lagOf(topic: string, groupId: string): Promise<PartitionLag[]>;
  /**
   * Resolves when all in-sync replicas have every record, in the given order for each partition. If that is
   * not certain, rejects. Some records may then exist, and the caller must send all again.
   */
  send(records: readonly PlacedRecord[]): Promise<void>;
  close(): Promise<void>;
};

const METADATA_MS = 5 * 60_000;
const RETRY = { initialRetryTime: 100, retries: 4, maxRetryTime: 3_000 };
const TIMEOUT_MS = 10_000;
const ALL_IN_SYNC = -1;
/** A broker accepts 1 MiB in one batch by default. A single record may be larger. */
const BATCH_BYTES = 900 * 1024;
/** An upper bound for the key, the header names and the lengths of a record, in bytes. */
const RECORD_BYTES = 512;

/**
 * Creates a producer. Does not use the library's idempotent mode, which loses records. Calls the library
 * separately for each partition. A call for two partitions may lose the records of one and still succeed.
 */
export function createKafkaProducer(client: Kafka): KafkaProducer {
  const producer = client.producer({
    allowAutoTopicCreation: false,
    idempotent: false,
    maxInFlightRequests: 1,
    metadataMaxAge: METADATA_MS,
    createPartitioner: () => namedPartition,
    retry: RETRY,
  });
  const admin = client.admin({ retry: RETRY });
  const counts = new Map<string, Promise<number>>();
  let connected: Promise<void> | undefined;

  function connect(): Promise<void> {
    connected ??= Promise.all([producer.connect(), admin.connect()]).then(() => undefined);
    connected.catch(() => {
      connected = undefined;
    });
    return connected;
  }

  async function countPartitions(topic: string): Promise<number> {
    await connect();
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    const count = topics.find(({ name }) => name === topic)?.partitions.length ?? 0;
    if (count === 0) throw new Error(`Kafka has no topic ${topic}: run deputize migrate`);
    return count;
  }

  return {
    partitionsOf(topic) {
      let count = counts.get(topic);
      if (count === undefined) {
        count = countPartitions(topic);
        counts.set(topic, count);
        count.catch(() => counts.delete(topic));
      }
      return count;
    },
    check: async (topic) => void (await countPartitions(topic)),
    async lagOf(topic, groupId) {
      await connect();
      return readLag(admin, topic, groupId);
    },
    async send(records) {
      await connect();
      try {
        await Promise.all([...byPartition(records)].map(([, batch]) => sendInOrder(producer, batch)));
      } catch (error) {
        // A topic that was created again may have a different number of partitions.
        for (const { topic } of records) counts.delete(topic);
        throw error;
      }
    },
    async close() {
      await connected?.catch(() => undefined);
      await Promise.all([producer.disconnect(), admin.disconnect()]);
    },
  };
}

/** Returns the partition that the Java client also chooses for a key (murmur2). */
export function partitionFor(key: string, count: number): number {
  const partitionMetadata = Array.from({ length: count }, (_, partitionId) => ({ partitionId }));
  return murmur2({ topic: "", partitionMetadata, message: { key, value: null } } as never);
}

const murmur2 = Partitioners.DefaultPartitioner();

function namedPartition({ message: { partition } }: PartitionerArgs): number {
  if (partition === undefined) throw new Error("The record names no partition");
  return partition;
}

function byPartition(records: readonly PlacedRecord[]): Map<string, PlacedRecord[]> {
  return Map.groupBy(records, ({ topic, partition }) => `${topic}/${partition}`);
}

/** If Kafka does not confirm a part, sends none of the later parts. */
async function sendInOrder(producer: Producer, records: readonly PlacedRecord[]): Promise<void> {
  for (const part of inParts(records)) await sendToOne(producer, part);
}

function inParts(records: readonly PlacedRecord[]): PlacedRecord[][] {
  const parts: PlacedRecord[][] = [];
  let bytes = 0;
  for (const record of records) {
    const size = sizeOf(record.message);
    bytes += size;
    const part = parts.at(-1);
    if (part !== undefined && bytes <= BATCH_BYTES) {
      part.push(record);
    } else {
      parts.push([record]);
      bytes = size;
    }
  }
  return parts;
}

function sizeOf({ value, headers = {} }: Message): number {
  const texts = [value ?? "", ...Object.values(headers).map(String)];
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text), RECORD_BYTES);
}

async function sendToOne(producer: Producer, batch: readonly PlacedRecord[]): Promise<void> {
  const [first] = batch;
  if (first === undefined) return;
  const { topic, partition } = first;
  const messages = batch.map(({ message }) => ({ ...message, partition }));
  const answers = await producer.send({ topic, acks: ALL_IN_SYNC, timeout: TIMEOUT_MS, messages });
  if (!isWritten(answers, topic, partition)) {
    throw new Error(`Kafka did not confirm partition ${partition} of ${topic}: ${JSON.stringify(answers)}`);
  }
}

/** Checks that the answer confirms this partition and nothing else. */
function isWritten(answers: readonly RecordMetadata[], topic: string, partition: number): boolean {
  const [answer] = answers;
  return (
    answers.length === 1 &&
    answer?.topicName === topic &&
    answer.partition === partition &&
    answer.errorCode === 0
  );
}

type Measuring = { clock: Clock; measure?: Pick<EventMetrics, "produced"> | undefined };

/** Returns a producer that also reports the result and duration of each `send` to `measure`, by topic. */
export function measuredProducer(producer: KafkaProducer, { clock, measure }: Measuring): KafkaProducer {
  return {
    ...producer,
    async send(records) {
      const startedAt = clock.now().getTime();
      const report = (result: "written" | "failed") => {
        const seconds = Math.max(0, (clock.now().getTime() - startedAt) / 1000);
        for (const topic of new Set(records.map((record) => record.topic))) {
          measure?.produced(topic, result, seconds);
        }
      };
      try {
        await producer.send(records);
      } catch (error) {
        report("failed");
        throw error;
      }
      report("written");
    },
  };
}
