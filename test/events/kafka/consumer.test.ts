import type { ConsumerConfig, Kafka } from "kafkajs";
import { pino } from "pino";
import { Registry } from "prom-client";
import { expect, test, vi } from "vitest";
import type { Database } from "../../../src/db/database.ts";
import { createEventMetrics } from "../../../src/events/event_metrics.ts";
import { startKafkaConsumer } from "../../../src/events/kafka/consumer.ts";
import { toRecord } from "../../../src/events/kafka/records.ts";
import { busEvent } from "../describe_bus.ts";
import { virtualClock } from "../support/time.ts";

const refused = () => Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
const databaseAway = async () => {
  throw refused();
};

function fakeReader(change: object = {}, transaction: () => Promise<unknown> = databaseAway) {
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
        database: { transaction } as unknown as Database,
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

test("the partitions of a dead process become free after twice the process's lease, but not before 6 s", async () => {
  const { start, asked } = fakeReader();
  for (const leaseSeconds of [2, 3, 4, 15]) await (await start(leaseSeconds)).close();
  expect(asked.map(({ sessionTimeout }) => sessionTimeout)).toEqual([6_000, 6_000, 8_000, 30_000]);
  expect(asked.map(({ heartbeatInterval }) => heartbeatInterval)).toEqual([600, 600, 800, 3_000]);
});

test("a reader that the library restarts during its close is closed again, without a fatal error", async () => {
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

test("a reader that could not start is closed, and its watchdog is stopped", async () => {
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

test.each([
  [true, []],
  [false, ["not allowed"]],
])(
  "a crashed reader ends the process unless the library restarts it (restart: %s)",
  async (restart, told) => {
    const { start, fatal, tell } = fakeReader();
    const running = await start();
    tell("crash", { payload: { restart, error: new Error("not allowed") } });
    await running.close();
    expect(fatal).toEqual(told);
  },
);

test("a reader's silence is measured until the reader is closed", async () => {
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

test("a pause because of an unavailable database is counted, and commits no offset", async () => {
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

/* An unavailable broker causes the same error as an unavailable database, but must not pause the reader. */
test("when the group rebalances, waiting batches end with the reason, and the running batch ends after its commit", async () => {
  let handle = async (_: unknown): Promise<void> => undefined;
  const run = async ({ eachBatch }: { eachBatch: typeof handle }) => {
    handle = eachBatch;
  };
  const commit = Promise.withResolvers<never[]>();
  const { start } = fakeReader({ run }, () => commit.promise);
  const running = await start(2);
  const moved = refused();
  const resolved: number[] = [];
  let pauses = 0;
  const batchOf = (partition: number) => ({
    batch: { topic: "t", partition, messages: [{ ...toRecord(busEvent(String(partition))), offset: "0" }] },
    heartbeat: () => Promise.reject(moved),
    isRunning: () => true,
    isStale: () => false,
    resolveOffset: () => void resolved.push(partition),
    pause() {
      pauses += 1;
      return () => undefined;
    },
  });
  const first = handle(batchOf(0)).catch((error: unknown) => error);
  expect(await handle(batchOf(1)).catch((error: unknown) => error)).toBe(moved);
  expect(resolved).toEqual([]);
  commit.resolve([]);
  expect(await first).toBe(moved);
  expect(resolved).toEqual([0]);
  expect(pauses).toBe(0);
  await running.close();
});
