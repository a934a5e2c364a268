import type { Admin, Kafka } from "kafkajs";
import type { MeasuredState } from "../metrics/measurements.ts";
import { readLag } from "./lag.ts";

const RETRY = { initialRetryTime: 100, retries: 2, maxRetryTime: 1_000 };

/** How far groups have come in a topic, to be measured; `close` ends its connection. */
export type LagState = MeasuredState & { close(): Promise<void> };

/** `groups`: those that read the topic. It connects when it is read first. */
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
