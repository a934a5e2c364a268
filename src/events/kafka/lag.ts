import type { Admin, Kafka } from "kafkajs";
import type { Database } from "../../db/database.ts";
import { readReport, writeReport } from "../../db/reports.ts";
import type { MeasuredState, Sample } from "../measurements.ts";

/** The progress of a consumer group in one partition. `end` and `committed` are the next record's offsets. */
export type PartitionLag = {
  partition: number;
  /** The offset of the oldest record that Kafka still keeps. */
  low: bigint;
  end: bigint;
  /** `undefined` if the group has committed nothing. */
  committed: bigint | undefined;
  /** The number of records that Kafka still keeps and the group has not committed. */
  lag: number;
};

/**
 * Returns the progress of a group in a topic, ordered by partition. Reads the ends before the committed
 * offsets. Rejects if Kafka does not answer or has no such topic.
 */
export async function readLag(
  admin: Pick<Admin, "fetchTopicOffsets" | "fetchOffsets">,
  topic: string,
  groupId: string,
): Promise<PartitionLag[]> {
  const ends = await admin.fetchTopicOffsets(topic);
  const [group] = await admin.fetchOffsets({ groupId, topics: [topic] });
  const offsets = new Map(group?.partitions.map(({ partition, offset }) => [partition, BigInt(offset)]));
  return ends
    .map(({ partition, high, low }) => lagOf(partition, BigInt(low), BigInt(high), offsets.get(partition)))
    .sort((one, other) => one.partition - other.partition);
}

/** Kafka returns the offset -1 if the group never committed one. */
function lagOf(partition: number, low: bigint, end: bigint, offset = -1n): PartitionLag {
  const committed = offset < 0n ? undefined : offset;
  const from = committed === undefined || committed < low ? low : committed;
  return { partition, low, end, committed, lag: Math.max(0, Number(end - from)) };
}

const SUBJECT = "kafka_lag";

type LagReport = Record<string, readonly Sample[]>;

/**
 * Returns a state that reads `lag` and also stores the result in the database, because the API has no access
 * to Kafka. Reading succeeds even if the result cannot be stored.
 */
export function storingReports(lag: LagState, database: Database): LagState {
  return {
    ...lag,
    async read(now) {
      const samples = await lag.read(now);
      await writeReport(database, SUBJECT, { at: now, content: samples }).catch(() => undefined);
      return samples;
    },
  };
}

/** Returns the lag that a worker last read from Kafka, or undefined if no worker ever did. */
export const readLagReport = (database: Database) => readReport<LagReport>(database, SUBJECT);

const RETRY = { initialRetryTime: 100, retries: 2, maxRetryTime: 1_000 };

/** `close` closes the connection to Kafka. */
type LagState = MeasuredState & { close(): Promise<void> };

/** Creates a state with the lag of each group that reads the topic. Connects when it is first read. */
export function lagState(client: Kafka, topic: string, groups: readonly string[]): LagState {
  let connected: Promise<Admin> | undefined;

  async function connect(): Promise<Admin> {
    const admin = client.admin({ retry: RETRY });
    await admin.connect();
    return admin;
  }

  async function admin(): Promise<Admin> {
    connected ??= connect();
    connected.catch(() => {
      connected = undefined;
    });
    return connected;
  }

  return {
    name: "kafka_lag",
    gauges: {
      deputize_kafka_consumer_lag: {
        help: "Records of a partition that a group has not committed; the same at every worker",
        labelNames: ["topic", "group", "partition"],
      },
    },
    async read() {
      const kafka = await admin();
      const lags = await Promise.all(
        groups.map(async (group) => {
          const partitions = await readLag(kafka, topic, group);
          return partitions.map(({ partition, lag }) => ({
            value: lag,
            labels: { topic, group, partition: String(partition) },
          }));
        }),
      );
      return { deputize_kafka_consumer_lag: lags.flat() };
    },
    async close() {
      const kafka = await connected?.catch(() => undefined);
      await kafka?.disconnect();
    },
  };
}
