import type { ConsumerConfig, Kafka, RecordMetadata } from "kafkajs";
import { pino } from "pino";
import { Registry } from "prom-client";
import { expect, test, vi } from "vitest";
import type { Database } from "../../../src/db/database.ts";
import { createKafkaProducer, partitionFor } from "../../../src/events/kafka/producer.ts";
import { startKafkaConsumer } from "../../../src/events/kafka/reading/consumer.ts";
import { readRecord, toRecord } from "../../../src/events/kafka/records.ts";
import { createEventMetrics } from "../../../src/events/metrics/event_metrics.ts";
import { busEvent } from "../describe_bus.ts";
import { virtualClock } from "../support/time.ts";

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

/** A reader of the library whose events are told by hand. */
function fakeReader(change: object = {}) {
  const listeners = new Map<string, ((event: unknown) => void)[]>();
  const done: string[] = [];
  const reader = {
    events: { CRASH: "crash", FETCH: "fetch", GROUP_JOIN: "join", HEARTBEAT: "heartbeat" },
    on: (name: string, listener: (event: unknown) => void) =>
      listeners.set(name, [...(listeners.get(name) ?? []), listener]),
    connect: async () => undefined,
    subscribe: async () => undefined,
    run: async () => undefined,
    disconnect: async () => void done.push("disconnected"),
    ...change,
  };
  const fatal: string[] = [];
  const asked: ConsumerConfig[] = [];
  const consumer = (config: ConsumerConfig) => {
    asked.push(config);
    return reader;
  };
  const tell = (name: string, event: unknown) => {
    for (const listener of listeners.get(name) ?? []) listener(event);
  };
  const clock = virtualClock();
  const registry = new Registry();
  const measure = createEventMetrics({ registry, clock });
  const start = (leaseSeconds = 15) =>
    startKafkaConsumer(
      {
        client: { consumer } as unknown as Kafka,
        leaseSeconds,
        database: {
          async transaction() {
            throw Object.assign(new Error("the database is away"), { code: "ECONNREFUSED" });
          },
        } as unknown as Database,
        clock,
        log: pino({ level: "silent" }),
        answers: async () => undefined,
        fatal: (error) => fatal.push(error.message),
        measure,
      },
      { name: "webhooks", handle: async () => undefined },
      { topic: "t", groupId: "g" },
    );
  const shown = async (name: string) =>
    (await registry.metrics()).split("\n").find((line) => line.startsWith(`${name}{`));
  return { start, clock, fatal, done, asked, shown, tell };
}

test("the partitions of a process that died are free after twice its lease, and 6 s at least", async () => {
  const { start, asked } = fakeReader();
  for (const leaseSeconds of [2, 3, 4, 15]) await (await start(leaseSeconds)).close();
  expect(asked.map(({ sessionTimeout }) => sessionTimeout)).toEqual([6_000, 6_000, 8_000, 30_000]);
  expect(asked.map(({ heartbeatInterval }) => heartbeatInterval)).toEqual([600, 600, 800, 3_000]);
});

test("a reader that the library starts again while it is closed is closed once more, and ends nothing", async () => {
  const { start, asked, done, fatal, tell } = fakeReader();
  const reader = await start();
  const startsAgain = () => asked[0]?.retry?.restartOnFailure?.(new Error("no broker"));
  expect(await startsAgain()).toBe(true);
  tell("fetch", {});
  expect(done).toEqual([]);
  await reader.close();
  expect(done).toEqual(["disconnected"]);
  expect(await startsAgain()).toBe(false);
  tell("crash", { payload: { restart: false, error: new Error("no broker") } });
  tell("fetch", {});
  tell("heartbeat", {});
  expect(done).toEqual(["disconnected", "disconnected", "disconnected"]);
  expect(fatal).toEqual([]);
});

test("a reader that could not begin is given up, and nothing watches it any more", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const { start, clock, fatal, done } = fakeReader({
      connect: async () => {
        throw new Error("Kafka is away");
      },
    });
    await expect(start()).rejects.toThrow("Kafka is away");
    expect(done).toEqual(["disconnected"]);
    clock.advance(600);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(fatal).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

/* After some errors the library starts a reader again by itself, after others it stays silent for ever. */
test.each([
  [true, []],
  [false, ["not allowed"]],
])(
  "a reader that crashed is the end of the process unless it is started again: %s",
  async (restart, told) => {
    const { start, fatal, tell } = fakeReader();
    const running = await start();
    tell("crash", { payload: { restart, error: new Error("not allowed") } });
    await running.close();
    expect(fatal).toEqual(told);
  },
);

test("a reader's silence is measured until it is closed", async () => {
  const { start, clock, tell, shown } = fakeReader();
  const running = await start();
  clock.advance(9);
  const silent = "deputize_kafka_reader_silent_seconds";
  expect(await shown(silent)).toBe(`${silent}{consumer="webhooks"} 9`);
  tell("heartbeat", {});
  expect(await shown(silent)).toBe(`${silent}{consumer="webhooks"} 0`);
  await running.close();
  expect(await shown(silent)).toBeUndefined();
});

test("a pause because the database is away is counted, and nothing is committed", async () => {
  let handle = async (_: unknown): Promise<void> => undefined;
  const { start, shown } = fakeReader({
    run: async ({ eachBatch }: { eachBatch: typeof handle }) => {
      handle = eachBatch;
    },
  });
  const running = await start();
  let pauses = 0;
  const value = Buffer.from("no event");
  await handle({
    batch: { topic: "t", partition: 0, messages: [{ offset: "0", value, headers: {}, timestamp: "0" }] },
    isRunning: () => true,
    isStale: () => false,
    pause() {
      pauses += 1;
      return () => undefined;
    },
  });
  expect(pauses).toBe(1);
  expect(await shown("deputize_kafka_pauses_total")).toBe(
    'deputize_kafka_pauses_total{consumer="webhooks"} 1',
  );
  await running.close();
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
