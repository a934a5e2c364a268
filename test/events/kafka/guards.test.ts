import type { Kafka, RecordMetadata } from "kafkajs";
import { expect, test } from "vitest";
import { createKafkaProducer, partitionFor } from "../../../src/events/kafka/producer.ts";
import { readRecord, toRecord } from "../../../src/events/kafka/records.ts";
import { busEvent } from "../describe_bus.ts";

type Sent = { topic: string; acks: number; messages: { partition: number; value: string }[] };

function fakeClient(answer: (sent: Sent) => Partial<RecordMetadata>[] = written) {
  const sent: Sent[] = [];
  const options: Record<string, unknown>[] = [];
  const client = {
    producer(given: Record<string, unknown>) {
      options.push(given);
      return {
        connect: async () => undefined,
        disconnect: async () => undefined,
        async send(record: Sent) {
          sent.push(record);
          return answer(record);
        },
      };
    },
    admin: () => ({ connect: async () => undefined, disconnect: async () => undefined }),
  };
  return { client: client as unknown as Kafka, sent, options };
}

const written = ({ topic, messages }: Sent) => [
  { topicName: topic, partition: messages[0]?.partition as number, errorCode: 0 },
];
const record = (partition: number, value: string) => ({ topic: "t", partition, message: { value } });

/* If one call sends to two partitions, the library can lose one's records and still report success. */
test("the producer calls the library once for each partition, with its records in order", async () => {
  const { client, sent } = fakeClient();
  const records = [record(0, "a"), record(1, "b"), record(0, "c"), record(2, "d"), record(1, "e")];
  await createKafkaProducer(client).send(records);
  const seen = sent.map(({ messages }) => messages.map(({ partition, value }) => `${partition}${value}`));
  expect(seen.toSorted()).toEqual([["0a", "0c"], ["1b", "1e"], ["2d"]]);
});

test("the producer sends a partition's records in order, in parts that a broker accepts, and stops after a failed part", async () => {
  const large = (value: string) => record(0, value.repeat(300 * 1024));
  const records = [large("a"), large("b"), large("c"), record(0, "d"), large("é"), record(1, "f")];
  const { client, sent } = fakeClient();
  await createKafkaProducer(client).send(records);
  const seen = (all: Sent[]) =>
    all.map(({ messages }) => messages.map(({ partition, value }) => `${partition}${String(value)[0]}`));
  expect(seen(sent).toSorted()).toEqual([["0a", "0b"], ["0c", "0d"], ["0é"], ["1f"]]);
  const failing = fakeClient((record) =>
    record.messages[0]?.value?.toString().startsWith("c") ? [] : written(record),
  );
  await expect(createKafkaProducer(failing.client).send(records.slice(0, 5))).rejects.toThrow(
    "did not confirm",
  );
  expect(seen(failing.sent)).toEqual([
    ["0a", "0b"],
    ["0c", "0d"],
  ]);
});

test("the size of a record includes the values of its headers", async () => {
  const reason = "r".repeat(500 * 1024);
  const explained = { ...record(0, ""), message: { value: "", headers: { deputize_reason: reason } } };
  const { client, sent } = fakeClient();
  await createKafkaProducer(client).send([explained, explained]);
  expect(sent).toHaveLength(2);
});

test("the producer waits for all in-sync replicas, and avoids the library's idempotent mode", async () => {
  const { client, sent, options } = fakeClient();
  await createKafkaProducer(client).send([record(0, "a")]);
  expect(sent[0]?.acks).toBe(-1);
  expect(options[0]).toMatchObject({
    idempotent: false,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
  });
});

test.each<[string, Partial<RecordMetadata>[]]>([
  ["without a partition", []],
  ["for another partition", [{ topicName: "t", partition: 1, errorCode: 0 }]],
  ["for another topic", [{ topicName: "u", partition: 0, errorCode: 0 }]],
  ["with an error", [{ topicName: "t", partition: 0, errorCode: 7 }]],
  [
    "for more partitions than requested",
    [
      { topicName: "t", partition: 0, errorCode: 0 },
      { topicName: "t", partition: 1, errorCode: 0 },
    ],
  ],
])("the producer rejects an answer %s", async (_, answer) => {
  const { client } = fakeClient(() => answer);
  await expect(createKafkaProducer(client).send([record(0, "a")])).rejects.toThrow("did not confirm");
});

/** Expected values of `toPositive(murmur2(key)) % 12` with `Utils.murmur2` of Kafka's Java client. */
test.each([
  ["21", 0],
  ["foobar", 6],
  ["a-little-bit-long-string", 8],
  ["a-little-bit-longer-string", 11],
  ["lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", 5],
])("partitionFor chooses the same partition as the Java client for the key %s", (key, partition) => {
  expect(partitionFor(key, 12)).toBe(partition);
});

test("readRecord returns the event that toRecord converted", () => {
  const event = busEvent("bücher", { headers: { traceparent: "00-1-2-01" } });
  const { value, headers } = toRecord(event);
  const asRead = Object.fromEntries(
    Object.entries(headers).map(([name, text]) => [name, Buffer.from(String(text))]),
  );
  expect(readRecord({ value: Buffer.from(String(value)), headers: asRead })).toEqual(event);
});

test("readRecord converts an id to lower case, as in the inbox", () => {
  const event = busEvent("one");
  const { value, headers } = toRecord({ ...event, eventId: event.eventId.toUpperCase() });
  const asRead = { value: Buffer.from(String(value)), headers: headers as Record<string, string> };
  expect(readRecord(asRead)).toEqual(event);
  expect(() => readRecord({ ...asRead, headers: { ...headers, ce_type: "t".repeat(201) } as never })).toThrow(
    "ce_type: ",
  );
});
