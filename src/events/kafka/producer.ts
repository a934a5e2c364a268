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

/** Writes records, each to the partition it is for. */
export type KafkaProducer = {
  /** How many partitions a topic has. Rejects when Kafka does not say, or there is no such topic. */
  partitionsOf(topic: string): Promise<number>;
  /** Rejects when Kafka does not answer for a topic now. */
  check(topic: string): Promise<void>;
  /** How far a group has come in a topic. Rejects when Kafka does not say. */
  lagOf(topic: string, groupId: string): Promise<PartitionLag[]>;
  /**
   * Resolves when every record is on all copies that are in sync, in the order given for each partition.
   * Rejects when that is not certain: some may have been written, and are to be sent again.
   */
  send(records: readonly PlacedRecord[]): Promise<void>;
  close(): Promise<void>;
};

/** How often a topic's partitions are looked up anew. */
const METADATA_MS = 5 * 60_000;
const RETRY = { initialRetryTime: 100, retries: 4, maxRetryTime: 3_000 };
const TIMEOUT_MS = 10_000;
const ALL_IN_SYNC = -1;
/** A broker takes 1 MiB in one batch if it is not set otherwise; a record alone may be larger. */
const BATCH_BYTES = 900 * 1024;
/** More than a record has besides its value and what its headers say: key, names, lengths. */
const RECORD_BYTES = 512;

/**
 * A producer without the library's idempotent mode, which loses records of its own. One call of the library
 * is for one partition: of two, it can lose one and report success.
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
        // A topic that was made anew may have other partitions.
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

/** The partition for a key, as the Java client places it (murmur2). */
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

/** No more at a time than a broker takes; what follows a part that is not confirmed is not sent. */
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

/** Whether the answer is that all was written there, and nothing else. */
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

/** The producer, with `measure` told of each topic that records were sent to: how that ended, and when. */
export function measuredProducer(producer: KafkaProducer, { clock, measure }: Measuring): KafkaProducer {
  return {
    ...producer,
    async send(records) {
      const startedAt = clock.now().getTime();
      const tell = (result: "written" | "failed") => {
        const seconds = Math.max(0, (clock.now().getTime() - startedAt) / 1000);
        for (const topic of new Set(records.map((record) => record.topic))) {
          measure?.produced(topic, result, seconds);
        }
      };
      try {
        await producer.send(records);
      } catch (error) {
        tell("failed");
        throw error;
      }
      tell("written");
    },
  };
}
