import { expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { putAside } from "../../../src/events/dead_letters.ts";
import { startDeadLetterLoop } from "../../../src/events/kafka/carry_dead_letters.ts";
import type { KafkaProducer, PlacedRecord } from "../../../src/events/kafka/producer.ts";
import { until } from "../../support/process.ts";
import { busEvent } from "../describe_bus.ts";
import { useDatabase } from "../support/database.ts";
import { SILENT } from "./kafka_world.ts";

const MOST = 1024 * 1024;
const home = useDatabase();

/** Simulates a broker that accepts at most 1 MiB. */
function producerOf(sent: PlacedRecord[]): KafkaProducer {
  return {
    partitionsOf: async () => 3,
    check: async () => undefined,
    lagOf: async () => [],
    async send(records) {
      const bytes = records.map(({ message: { value, headers } }) =>
        Buffer.byteLength(`${value}${JSON.stringify(headers)}`),
      );
      if (bytes.some((count) => count > MOST)) throw new Error("The request included a message too large");
      sent.push(...records);
    },
    close: async () => undefined,
  };
}

/* The record grows: the loop adds headers, and replaced characters are longer. */
test("a dead letter of the largest possible size is truncated on its topic, and does not block other letters", async () => {
  const { database } = home;
  const deps = { database, clock: systemClock };
  const large = busEvent("large", { payload: "\0".repeat(MOST - 300) });
  const small = busEvent("small");
  for (const event of [large, small]) await putAside(deps, { name: "test" }, event, { reason: "why" });
  const sent: PlacedRecord[] = [];
  const loop = startDeadLetterLoop({ ...deps, log: SILENT, producer: producerOf(sent), topic: "dlq" });
  await until("both are carried", async () => sent.length === 2, 5_000).finally(() => loop.stop());
  const values = new Map(sent.map(({ message }) => [String(message.key), String(message.value)]));
  expect(values.get(small.eventId)).toBe(small.payload);
  const [row] = await database("dead_letters").where({ event_id: large.eventId });
  expect(row).toMatchObject({ event: { payload: "\uFFFD".repeat(MOST - 300) } });
});
