import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, expect, test } from "vitest";
import type { BusEvent } from "../../../src/events/bus.ts";
import { consume } from "../../../src/events/consume.ts";
import type { PartitionLag } from "../../../src/events/kafka/lag.ts";
import { createRepair, hasPassed } from "../../../src/events/kafka/repair.ts";
import { busEvent, keeping, labelOf } from "../describe_bus.ts";
import { useDatabase } from "../support/database.ts";
import { virtualClock } from "../support/time.ts";
import { SILENT } from "./kafka_world.ts";

const home = useDatabase();
beforeEach(() => home.database.raw("truncate published_events, inbox, event_repairs"));

function at(partition: number, committed: bigint | undefined, end: bigint, low = 0n): PartitionLag {
  return { partition, low, end, committed, lag: 0 };
}

function makeRepair(seconds = 0) {
  const { consumer } = keeping();
  const offsets = { committed: 0n, end: 0n };
  const again: BusEvent[] = [];
  let isAway = false;
  const repair = createRepair({
    database: home.database,
    log: SILENT,
    seconds,
    readLag: async () => [at(0, offsets.committed, offsets.end)],
    async publish(events) {
      if (isAway) throw new Error("Kafka is away");
      again.push(...events);
    },
  });
  return {
    consumer,
    offsets,
    again,
    /* Waits first, because an event from the sample's own millisecond would belong to the next sample. */
    async repair() {
      await sleep(2);
      return repair(consumer);
    },
    setAway: (away: boolean) => {
      isAway = away;
    },
  };
}

async function note(label: string, aggregateType = "connection"): Promise<BusEvent> {
  const event = busEvent(label, { aggregateType });
  await home.database("published_events").insert({
    event_id: event.eventId,
    aggregatetype: event.aggregateType,
    aggregateid: event.aggregateId,
    aggregate_seq: event.aggregateSeq,
    type: event.type,
    schema_version: event.schemaVersion,
    shard: 0,
    payload: event.payload,
    headers: event.headers,
    created_at: event.createdAt,
    published_at: home.database.raw("clock_timestamp()") as never,
  });
  return event;
}

async function handle(consumer: Parameters<typeof consume>[1], ...events: BusEvent[]): Promise<void> {
  await consume({ database: home.database, clock: virtualClock(), log: SILENT }, consumer, events);
}

test("the repair publishes an unhandled event again, unchanged, after the offsets have passed it", async () => {
  const { consumer, offsets, again, repair } = makeRepair();
  const [kept, lost] = [await note("kept"), await note("lost")];
  offsets.end = 2n;
  expect(await repair()).toBe(0);
  await handle(consumer, kept);
  offsets.committed = 2n;
  expect(await repair()).toBe(1);
  expect(again).toEqual([lost]);
});

test("the repair never publishes events that the reader may still read, however often it runs", async () => {
  const { offsets, again, repair } = makeRepair();
  await note("waits");
  offsets.end = 1n;
  for (let n = 0; n < 4; n += 1) expect(await repair()).toBe(0);
  expect(again).toEqual([]);
});

test("the repair publishes an event that is newer than the latest sample of offsets only after the next sample", async () => {
  const { offsets, again, repair } = makeRepair();
  await repair();
  await note("later");
  offsets.end = 5n;
  offsets.committed = 4n;
  expect(await repair()).toBe(0);
  offsets.committed = 5n;
  expect(await repair()).toBe(1);
  expect(again.map(labelOf)).toEqual(["later"]);
});

test("the repair publishes an event twice if Kafka loses it twice", async () => {
  const { again, repair } = makeRepair();
  await note("lost");
  await repair();
  expect(await repair()).toBe(1);
  expect(await repair()).toBe(0);
  expect(await repair()).toBe(1);
  expect(again.map(labelOf)).toEqual(["lost", "lost"]);
});

test("the repair ignores events that its reader does not read", async () => {
  const { consumer, again, repair } = makeRepair();
  Object.assign(consumer, { aggregateTypes: ["connection"] });
  await note("of an account", "account");
  await repair();
  expect(await repair()).toBe(0);
  expect(again).toEqual([]);
});

test("the repair publishes more than one batch, and retries after a failure", async () => {
  const { again, repair, setAway } = makeRepair();
  const events = [];
  for (let n = 0; n < 401; n += 1) events.push(await note(String(n)));
  await repair();
  setAway(true);
  await expect(repair()).rejects.toThrow("Kafka is away");
  setAway(false);
  expect(await repair()).toBe(401);
  expect(new Set(again.map(({ eventId }) => eventId))).toEqual(new Set(events.map(({ eventId }) => eventId)));
});

test("the repair publishes an event whose transaction commits late", async () => {
  const { again, repair } = makeRepair();
  await repair();
  await repair();
  const late = await note("late");
  await home
    .database("published_events")
    .where({ event_id: late.eventId })
    .update({ published_at: home.database.raw("now() - interval '5 minutes'") as never });
  expect(await repair()).toBe(1);
  expect(again).toEqual([late]);
});

test("only one process repairs at a time, and it continues from the state that another process stored", async () => {
  const [one, other] = [makeRepair(3600), makeRepair(3600)];
  other.consumer.name = one.consumer.name;
  await note("lost");
  await one.repair();
  await other.repair();
  expect(await home.database("event_repairs")).toHaveLength(1);
  expect(await other.repair()).toBe(0);
  await home.database("event_repairs").update({ due_at: new Date(0) });
  const counts = await Promise.all([one.repair(), other.repair()]);
  expect(counts.sort()).toEqual([0, 1]);
});

test("hasPassed requires that each partition's offset has passed the partition's end", () => {
  const ends = { 0: "10", 1: "5" };
  expect(hasPassed([at(0, 10n, 12n), at(1, 5n, 5n)], ends)).toBe(true);
  expect(hasPassed([at(0, 10n, 12n), at(1, 4n, 5n)], ends)).toBe(false);
  expect(hasPassed([at(0, 9n, 12n), at(1, 5n, 5n)], ends)).toBe(false);
});

test("hasPassed accepts a partition that was never read after Kafka deleted its records", () => {
  expect(hasPassed([at(0, undefined, 12n, 9n)], { 0: "10" })).toBe(false);
  expect(hasPassed([at(0, undefined, 12n, 10n)], { 0: "10" })).toBe(true);
});

test("hasPassed uses the current end of a partition that lost its last records or was deleted", () => {
  expect(hasPassed([at(0, 3n, 4n)], { 0: "10" })).toBe(false);
  expect(hasPassed([at(0, 4n, 4n)], { 0: "10" })).toBe(true);
  expect(hasPassed([at(0, 90n, 4n)], { 0: "10" })).toBe(true);
  expect(hasPassed([], { 0: "10" })).toBe(true);
});

test("the repair uses each reader's own offsets", async () => {
  const [one, other] = [makeRepair(), makeRepair()];
  one.consumer.name = randomUUID();
  const event = await note("lost to one");
  await one.repair();
  await other.repair();
  await handle(other.consumer, event);
  expect(await one.repair()).toBe(1);
  expect(await other.repair()).toBe(0);
});
