import type { Kafka } from "kafkajs";
import { pino } from "pino";
import { Registry } from "prom-client";
import { expect, test } from "vitest";
import { lagState, readLag } from "../../../src/events/kafka/lag.ts";
import { createMeasurements } from "../../../src/events/measurements.ts";
import { virtualClock } from "../support/time.ts";

/** Returns a fake admin client with these partitions: [partition, low, high, committed]. */
function adminOf(...rows: [number, string, string, string][]) {
  return {
    fetchTopicOffsets: async () =>
      rows.map(([partition, low, high]) => ({ partition, low, high, offset: high })),
    fetchOffsets: async () => [
      {
        topic: "t",
        partitions: rows.map(([partition, , , offset]) => ({ partition, offset, metadata: null })),
      },
    ],
  };
}

test("readLag counts the kept records that the group has not committed", async () => {
  const admin = adminOf([1, "0", "10", "7"], [0, "5", "10", "-1"], [2, "8", "10", "3"], [3, "0", "0", "-1"]);
  expect(await readLag(admin, "t", "g")).toEqual([
    { partition: 0, low: 5n, end: 10n, committed: undefined, lag: 5 },
    { partition: 1, low: 0n, end: 10n, committed: 7n, lag: 3 },
    { partition: 2, low: 8n, end: 10n, committed: 3n, lag: 2 },
    { partition: 3, low: 0n, end: 0n, committed: undefined, lag: 0 },
  ]);
});

test("readLag returns 0 for an offset beyond the end of a topic that was created again", async () => {
  expect(await readLag(adminOf([0, "0", "4", "90"]), "t", "g")).toMatchObject([{ committed: 90n, lag: 0 }]);
});

test("readLag counts all records for a group that never read", async () => {
  const admin = { ...adminOf([0, "2", "9", "-1"]), fetchOffsets: async () => [] };
  expect(await readLag(admin, "t", "g")).toMatchObject([{ committed: undefined, lag: 7 }]);
});

test("the metric of the lag follows each group and partition, down to 0", async () => {
  const registry = new Registry();
  const log = pino({ level: "silent" });
  const measurements = createMeasurements({ registry, clock: virtualClock(), log });
  const connected = { connect: async () => {}, disconnect: async () => {} };
  const kafka = { admin: () => Object.assign(connected, adminOf([0, "0", "10", "7"], [1, "0", "4", "4"])) };
  const lag = lagState(kafka as unknown as Kafka, "t", ["one", "other"]);
  measurements.add(lag);
  const shown = async () => {
    await measurements.read();
    return (await registry.metrics()).match(/(?<=^deputize_kafka_consumer_lag).*$/gm);
  };
  const series = (group: string, partition: number, value: number) =>
    `{topic="t",group="${group}",partition="${partition}"} ${value}`;
  expect(await shown()).toEqual([
    ...[series("one", 0, 3), series("one", 1, 0)],
    ...[series("other", 0, 3), series("other", 1, 0)],
  ]);
  Object.assign(connected, adminOf([0, "0", "10", "10"]));
  expect(await shown()).toEqual([series("one", 0, 0), series("other", 0, 0)]);
  await lag.close();
});
