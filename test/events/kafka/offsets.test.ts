import { setTimeout as sleep } from "node:timers/promises";
import type { Consumer, TopicPartitionOffset } from "kafkajs";
import { expect, test } from "vitest";
import { commitOffsets } from "../../../src/events/kafka/offsets.ts";
import { until } from "../../support/process.ts";
import { SILENT } from "./kafka_world.ts";

function fakeReader() {
  const committed: TopicPartitionOffset[][] = [];
  const state = { isAway: false };
  let join = () => {};
  const reader = {
    events: { GROUP_JOIN: "join" },
    on: (_: string, listener: () => void) => {
      join = listener;
    },
    async commitOffsets(places: TopicPartitionOffset[]) {
      if (state.isAway) throw new Error("Kafka is away");
      committed.push(places);
    },
  } as unknown as Consumer;
  return { reader, committed, state, join: () => join() };
}

const place = (partition: number) => ({ topic: "t", partition });

test("one request commits for every partition the offset after the partition's last handled record", async () => {
  const { reader, committed } = fakeReader();
  const offsets = commitOffsets(reader, SILENT, "webhooks");
  offsets.handled(place(0), "6");
  offsets.handled(place(1), "2");
  offsets.handled(place(0), "9007199254740993");
  await until("they are committed", () => committed.length > 0);
  expect(committed).toEqual([
    [
      { ...place(0), offset: "9007199254740994" },
      { ...place(1), offset: "3" },
    ],
  ]);
  await sleep(500);
  expect(committed).toHaveLength(1);
  await offsets.close();
  expect(committed).toHaveLength(1);
});

test("a failed commit is repeated, and close() commits the rest", async () => {
  const { reader, committed, state } = fakeReader();
  const offsets = commitOffsets(reader, SILENT, "webhooks");
  state.isAway = true;
  offsets.handled(place(0), "1");
  await sleep(300);
  state.isAway = false;
  await until("it is committed", () => committed.length > 0);
  offsets.handled(place(0), "5");
  await offsets.close();
  expect(committed.flat().map(({ offset }) => offset)).toEqual(["2", "6"]);
});

test("after the reader joins its group again, earlier offsets are not committed", async () => {
  const { reader, committed, join } = fakeReader();
  const offsets = commitOffsets(reader, SILENT, "webhooks");
  offsets.handled(place(0), "1");
  join();
  await sleep(300);
  await offsets.close();
  expect(committed).toEqual([]);
});

test("close() waits at most two seconds for a Kafka that does not answer", async () => {
  const { reader } = fakeReader();
  Object.assign(reader, { commitOffsets: () => new Promise(() => undefined) });
  const offsets = commitOffsets(reader, SILENT, "webhooks");
  offsets.handled(place(0), "1");
  const before = performance.now();
  await offsets.close();
  expect(performance.now() - before).toBeLessThan(5_000);
});
