import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Kafka } from "kafkajs";
import { pino } from "pino";
import { Registry } from "prom-client";
import { beforeEach, expect, test } from "vitest";
import { createNoticeMetrics } from "../../src/accounts/notices/sender.ts";
import { addSeconds } from "../../src/clock.ts";
import type { BusEvent, Consumer } from "../../src/events/bus.ts";
import { consume } from "../../src/events/consume.ts";
import { putAside } from "../../src/events/dead_letters.ts";
import { createEventMetrics } from "../../src/events/event_metrics.ts";
import { eventStates } from "../../src/events/event_states.ts";
import { lagState } from "../../src/events/kafka/lag.ts";
import { type KafkaProducer, measuredProducer } from "../../src/events/kafka/producer.ts";
import { createMeasurements } from "../../src/events/measurements.ts";
import { createRelay } from "../../src/events/relay.ts";
import { createShardLeases } from "../../src/events/shards.ts";
import { makeConnection } from "./support/connection.ts";
import { useDatabase } from "./support/database.ts";
import { append, deniedEvent, recordingBus } from "./support/events.ts";
import { virtualClock } from "./support/time.ts";

const home = useDatabase();
const log = pino({ level: "silent" });
let clock = virtualClock();
let registry = new Registry();
let measure = createEventMetrics({ registry, clock });
beforeEach(() => {
  clock = virtualClock();
  registry = new Registry();
  measure = createEventMetrics({ registry, clock });
});

async function shown(name: string): Promise<string[]> {
  const lines = (await registry.metrics()).split("\n").filter((line) => line.startsWith(name));
  return lines.map((line) => line.slice(name.length));
}

test("docs/events.md lists exactly the existing metrics with their labels", async () => {
  createNoticeMetrics({ registry });
  const measurements = createMeasurements({ registry, clock, log });
  const states = [...eventStates(home.database, []), lagState({} as Kafka, "", [])];
  for (const state of states) measurements.add(state);
  const known = registry.getMetricsAsArray().map((metric) => {
    const { name, labelNames } = metric as unknown as { name: string; labelNames: string[] };
    return `${name} ${[...labelNames].join(", ")}`;
  });
  const page = await readFile(new URL("../../docs/events.md", import.meta.url), "utf8");
  const section = page.slice(page.indexOf("### Measurements"));
  const rows = [
    ...section.matchAll(/^\| `(deputize_[a-z_]+)` \| (?:`([a-z_, ]+)`)? ?\|.*\| (process|all) \|.*\|$/gm),
  ];
  expect(rows.map(([, name, labels = ""]) => `${name} ${labels}`).sort()).toEqual(known.sort());
  const ofAll = registry.getMetricsAsArray().filter(({ help }) => help.includes("the same at every worker"));
  const told = rows.filter(([, name, , of]) => of === "all" && !name?.startsWith("deputize_notice"));
  expect(told.map(([, name]) => name).sort()).toEqual(ofAll.map(({ name }) => name).sort());
});

function event(createdAt = clock.now()): BusEvent {
  return {
    eventId: randomUUID(),
    type: "delegation.denied",
    aggregateType: "connection",
    aggregateId: randomUUID(),
    aggregateSeq: 1,
    schemaVersion: 1,
    payload: "{}",
    headers: {},
    createdAt,
  };
}

function consumer(name: string, handle: Consumer["handle"] = async () => undefined): Consumer {
  return { name, handle };
}
const deps = () => ({ database: home.database, clock, log, measure });

test("consumed events are counted as handled or duplicate, with their latency", async () => {
  const [one, two, future] = [event(addSeconds(clock.now(), -2)), event(), event(addSeconds(clock.now(), 9))];
  await consume(deps(), consumer("c"), [one, two]);
  await consume(deps(), consumer("c"), [one, two, future]);
  expect(await shown("deputize_consumer_events_total")).toEqual([
    '{consumer="c",outcome="handled"} 3',
    '{consumer="c",outcome="duplicate"} 2',
    '{consumer="c",outcome="put_aside"} 0',
  ]);
  expect(await shown("deputize_consumer_latency_seconds_sum")).toEqual(['{consumer="c"} 2']);
  expect(await shown("deputize_consumer_latency_seconds_count")).toEqual(['{consumer="c"} 3']);
});

test("an event's latency is measured until the consumer's commit", async () => {
  const slow = consumer("slow", async () => void clock.advance(3));
  await consume(deps(), slow, [event()]);
  expect(await shown("deputize_consumer_latency_seconds_sum")).toEqual(['{consumer="slow"} 3']);
});

test("a failing event is counted once as a dead letter, and not as handled", async () => {
  const failing = consumer("f", async () => Promise.reject(new Error("no")));
  const poison = event();
  await consume(deps(), failing, [poison]);
  await consume(deps(), failing, [poison]);
  expect(await shown("deputize_consumer_events_total")).toEqual([
    '{consumer="f",outcome="put_aside"} 1',
    '{consumer="f",outcome="handled"} 0',
    '{consumer="f",outcome="duplicate"} 1',
  ]);
});

test("a record that arrives again is not counted as a dead letter again", async () => {
  const unreadable = event();
  await putAside(deps(), { name: "u" }, unreadable, { reason: "no event" });
  await putAside(deps(), { name: "u" }, unreadable, { reason: "no event" });
  expect(await shown("deputize_consumer_events_total")).toEqual(['{consumer="u",outcome="put_aside"} 1']);
});

test("nothing is counted while the database is unavailable", async () => {
  const away = consumer("a", async () =>
    Promise.reject(Object.assign(new Error("gone"), { code: "ECONNREFUSED" })),
  );
  await expect(consume(deps(), away, [event()])).rejects.toThrow("gone");
  expect(await shown("deputize_consumer_events_total")).toEqual([]);
});

test("batches of the relay are counted by result", async () => {
  const workerId = randomUUID();
  await createShardLeases(home.database, workerId).renew();
  const bus = recordingBus();
  const relay = createRelay({ database: home.database, bus, clock, workerId, measure });
  await append(home.database, deniedEvent(await makeConnection(home.database, null), "r"));
  bus.failing = true;
  await expect(relay.step()).rejects.toThrow();
  bus.failing = false;
  await relay.step();
  await relay.step();
  expect(await shown("deputize_relay_batches_total")).toEqual([
    '{result="published"} 1',
    '{result="failed"} 1',
  ]);
});

test("writes to Kafka are measured by topic and result", async () => {
  let fails = false;
  const producer = measuredProducer(
    {
      async send() {
        clock.advance(0.5);
        if (fails) throw new Error("away");
      },
    } as unknown as KafkaProducer,
    { clock, measure },
  );
  const records = ["t", "t", "u"].map((topic) => ({ topic, partition: 0, message: { value: "" } }));
  await producer.send(records);
  fails = true;
  await expect(producer.send(records.slice(0, 1))).rejects.toThrow("away");
  expect(await shown("deputize_kafka_produce_seconds_count")).toEqual([
    '{topic="t",result="written"} 1',
    '{topic="u",result="written"} 1',
    '{topic="t",result="failed"} 1',
  ]);
  expect(await shown("deputize_kafka_produce_seconds_sum")).toContain('{topic="t",result="failed"} 0.5');
});

test("the seconds for which a reader has been silent are exposed until the reader is no longer watched", async () => {
  const end = measure.watches("webhooks", () => 7);
  measure.paused("webhooks");
  expect(await shown("deputize_kafka_reader_silent_seconds")).toEqual(['{consumer="webhooks"} 7']);
  expect(await shown("deputize_kafka_pauses_total")).toEqual(['{consumer="webhooks"} 1']);
  end();
  expect(await shown("deputize_kafka_reader_silent_seconds")).toEqual([]);
});
