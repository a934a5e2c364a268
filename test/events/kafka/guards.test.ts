import type { Kafka, RecordMetadata } from "kafkajs";
import { expect, test } from "vitest";
import { createKafkaProducer, partitionFor } from "../../../src/events/kafka/producer.ts";
import { readRecord, toRecord } from "../../../src/events/kafka/records.ts";
import { busEvent } from "../describe_bus.ts";

type Sent = { topic: string; acks: number; messages: { partition: number; value: string }[] };

/** A client of the library that keeps what it is asked, and answers as told. */
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

/* Of a send over two partitions the library can lose one, and answer as if it had written both. */
test("one call of the library is for one partition, with every record of it in order", async () => {
  const { client, sent } = fakeClient();
  const records = [record(0, "a"), record(1, "b"), record(0, "c"), record(2, "d"), record(1, "e")];
  await createKafkaProducer(client).send(records);
  const seen = sent.map(({ messages }) => messages.map(({ partition, value }) => `${partition}${value}`));
  expect(seen.toSorted()).toEqual([["0a", "0c"], ["1b", "1e"], ["2d"]]);
});

/* A broker refuses a batch of more than 1 MiB, however often it is sent. */
test("records of one partition go in parts that a broker takes, in order, and not past one that failed", async () => {
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

test("what a record's headers say counts too", async () => {
  const reason = "r".repeat(500 * 1024);
  const explained = { ...record(0, ""), message: { value: "", headers: { deputize_reason: reason } } };
  const { client, sent } = fakeClient();
  await createKafkaProducer(client).send([explained, explained]);
  expect(sent).toHaveLength(2);
});

test("all copies in sync confirm, and nothing of the library's idempotent mode is used", async () => {
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
  ["of nothing", []],
  ["of another partition", [{ topicName: "t", partition: 1, errorCode: 0 }]],
  ["of another topic", [{ topicName: "u", partition: 0, errorCode: 0 }]],
  ["of an error", [{ topicName: "t", partition: 0, errorCode: 7 }]],
  [
    "of more than was asked",
    [
      { topicName: "t", partition: 0, errorCode: 0 },
      { topicName: "t", partition: 1, errorCode: 0 },
    ],
  ],
])("an answer %s is no confirmation", async (_, answer) => {
  const { client } = fakeClient(() => answer);
  await expect(createKafkaProducer(client).send([record(0, "a")])).rejects.toThrow("did not confirm");
});

/** As `Utils.murmur2` of Kafka's Java client says: `toPositive(murmur2(key)) % 12`. */
test.each([
  ["21", 0],
  ["foobar", 6],
  ["a-little-bit-long-string", 8],
  ["a-little-bit-longer-string", 11],
  ["lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", 5],
])("a key goes where the Java client places it: %s", (key, partition) => {
  expect(partitionFor(key, 12)).toBe(partition);
});

test("a record is read as the event that it was made of", () => {
  const event = busEvent("bücher", { headers: { traceparent: "00-1-2-01" } });
  const { value, headers } = toRecord(event);
  const asRead = Object.fromEntries(
    Object.entries(headers).map(([name, text]) => [name, Buffer.from(String(text))]),
  );
  expect(readRecord({ value: Buffer.from(String(value)), headers: asRead })).toEqual(event);
});

test("an id in capital letters is that of an event that the inbox knows in small ones", () => {
  const event = busEvent("one");
  const { value, headers } = toRecord({ ...event, eventId: event.eventId.toUpperCase() });
  const asRead = { value: Buffer.from(String(value)), headers: headers as Record<string, string> };
  expect(readRecord(asRead)).toEqual(event);
  expect(() => readRecord({ ...asRead, headers: { ...headers, ce_type: "t".repeat(201) } as never })).toThrow(
    "ce_type: ",
  );
});
