import { randomUUID } from "node:crypto";
import { beforeEach, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { StartError } from "../../src/config.ts";
import { adoptCarrier, checkCarrier, embeddedCarrier } from "../../src/events/carrier.ts";
import { consume } from "../../src/events/consume.ts";
import { type CarrierKind, takeOffOutbox, unhandledEvents } from "../../src/events/published.ts";
import { createRelay } from "../../src/events/relay.ts";
import { createShardLeases } from "../../src/events/shards.ts";
import { keeping } from "./describe_bus.ts";
import { SILENT } from "./kafka/kafka_world.ts";
import { makeConnection } from "./support/connection.ts";
import { useDatabase } from "./support/database.ts";
import { append, deniedEvent, recordingBus, requestIdOf } from "./support/events.ts";
import { eventually, virtualClock } from "./support/time.ts";

const home = useDatabase();
const kafkaCarrier = { ...embeddedCarrier, kind: "kafka" } as const;

beforeEach(async () => {
  await home.database.raw("truncate outbox, published_events, inbox");
  await home.database("relay_workers").delete();
  await home.database("relay_shards").update({ owner: null, held_until: new Date(0) });
  await home.database("event_way").update({ way: "kafka" });
});

/** Creates a relay that owns every shard. */
async function startRelay(carrier: CarrierKind) {
  const workerId = randomUUID();
  await createShardLeases(home.database, workerId).renew();
  const bus = recordingBus();
  const relay = createRelay({ database: home.database, bus, clock: virtualClock(), workerId, carrier });
  return { bus, relay, workerId };
}

async function appendAll(...ids: string[]): Promise<void> {
  const connection = await makeConnection(home.database, null);
  for (const id of ids) await append(home.database, deniedEvent(connection, id));
}

async function handle(consumer: Parameters<typeof consume>[1], ...ids: string[]): Promise<void> {
  const rows = await unhandled({ name: consumer.name });
  const events = rows.filter((event) => ids.includes(requestIdOf(event)));
  const deps = { database: home.database, clock: virtualClock(), log: SILENT };
  await consume(deps, consumer, events);
}

async function unhandled(reader: Parameters<typeof unhandledEvents>[1], change = {}) {
  const range = { from: null, until: addSeconds(new Date(), 60), limit: 100, ...change };
  const rows = await unhandledEvents(home.database, reader, range);
  return rows.map((row) => ({
    ...row,
    eventId: row.event_id,
    aggregateType: row.aggregatetype,
    aggregateId: row.aggregateid,
    aggregateSeq: row.aggregate_seq,
    schemaVersion: row.schema_version,
    createdAt: row.created_at,
  }));
}

test("published events are kept with all fields if EVENTS is kafka, and deleted if it is embedded", async () => {
  const { relay } = await startRelay("kafka");
  await appendAll("a");
  const [{ id: _, ...row } = { id: 0 }] = await home.database("outbox");
  await relay.step();
  expect(await home.database("published_events")).toEqual([{ ...row, published_at: expect.any(Date) }]);
  expect(await home.database("outbox")).toEqual([]);
  await home.database("event_way").update({ way: "embedded" });
  await home.database("relay_shards").update({ owner: null, held_until: new Date(0) });
  await home.database("relay_workers").delete();
  const { relay: embedded } = await startRelay("embedded");
  await appendAll("b");
  await embedded.step();
  expect(await home.database("published_events")).toHaveLength(1);
  expect(await home.database("outbox")).toEqual([]);
});

test("unhandledEvents returns events that are neither handled nor dead letters, in the order of publication", async () => {
  const { relay } = await startRelay("kafka");
  await appendAll("a", "b", "c");
  await relay.step();
  const { consumer } = keeping((event) => {
    if (requestIdOf(event) === "b") throw new TypeError("cannot read it");
  });
  expect((await unhandled(consumer)).map(requestIdOf)).toEqual(["a", "b", "c"]);
  await handle(consumer, "a", "b");
  expect((await unhandled(consumer)).map(requestIdOf)).toEqual(["c"]);
  expect((await unhandled({ name: "another" }, { limit: 2 })).map(requestIdOf)).toEqual(["a", "b"]);
  expect(await unhandled({ name: "another", aggregateTypes: ["account"] })).toEqual([]);
});

test("unhandledEvents includes the start of the range and excludes its end", async () => {
  const { relay } = await startRelay("kafka");
  await appendAll("a");
  await relay.step();
  const at = new Date("2026-01-31T12:00:00.000Z");
  await home.database("published_events").update({ published_at: at });
  const found = async (from: number, until: number) =>
    (await unhandled({ name: "x" }, { from: addSeconds(at, from), until: addSeconds(at, until) })).length;
  expect(await found(0, 1)).toBe(1);
  expect(await found(-1, 0)).toBe(0);
  expect(await found(0.001, 1)).toBe(0);
});

test("after EVENTS has changed, the former relay reads and deletes nothing", async () => {
  const { bus, relay, workerId } = await startRelay("kafka");
  await appendAll("a");
  const [row] = await home.database("outbox");
  const { epoch } = (await home
    .database("relay_shards")
    .where({ shard: row?.shard ?? 0 })
    .first()) ?? {
    epoch: 0,
  };
  await home.database("event_way").update({ way: "embedded" });
  expect(await relay.step()).toBe(false);
  expect(bus.published).toEqual([]);
  await takeOffOutbox(home.database, [{ id: row?.id ?? 0, epoch }], { workerId, carrier: "kafka" });
  expect(await home.database("outbox")).toHaveLength(1);
  expect(await home.database("published_events")).toEqual([]);
});

test("an event stays in the outbox if EVENTS changes while the relay deletes it", async () => {
  const { workerId } = await startRelay("kafka");
  const change = await home.database.transaction();
  await change("event_way").forUpdate().first();
  await appendAll("a");
  const [row] = await home.database("outbox");
  const shard = await home
    .database("relay_shards")
    .where({ shard: row?.shard ?? 0 })
    .first();
  const taking = takeOffOutbox(home.database, [{ id: row?.id ?? 0, epoch: shard?.epoch ?? 0 }], {
    workerId,
    carrier: "kafka",
  });
  await eventually("it waits", async () => {
    const { rows } = await home.database.raw("select count(*) as n from pg_locks where not granted");
    return rows[0].n > 0;
  });
  await change("event_way").update({ way: "embedded" });
  await change.commit();
  await taking;
  expect(await home.database("outbox")).toHaveLength(1);
});

test("changing EVENTS back to embedded returns unhandled events to the outbox in order", async () => {
  const { relay } = await startRelay("kafka");
  await appendAll("a", "b", "c");
  await relay.step();
  const [one, other] = [keeping().consumer, keeping().consumer];
  await handle(one, "a", "b", "c");
  await handle(other, "a");
  await adoptCarrier(home.database, embeddedCarrier, [one, other]);
  const rows = await home.database("outbox").orderBy("id");
  expect(rows.map(({ payload }) => JSON.parse(payload).request_id)).toEqual(["b", "c"]);
  await expect(checkCarrier(home.database, embeddedCarrier)).resolves.toBeUndefined();
  await expect(checkCarrier(home.database, kafkaCarrier)).rejects.toThrow(StartError);
  await expect(checkCarrier(home.database, kafkaCarrier)).rejects.toThrow("started with EVENTS=embedded");
});

test("a change of EVENTS is rejected with the number of waiting events, and nothing changes", async () => {
  await appendAll("a", "b");
  await expect(adoptCarrier(home.database, embeddedCarrier, [])).rejects.toThrow("but 2 events still wait");
  await expect(checkCarrier(home.database, kafkaCarrier)).resolves.toBeUndefined();
  await home.database("outbox").delete();
  await adoptCarrier(home.database, embeddedCarrier, []);
  await adoptCarrier(home.database, kafkaCarrier, []);
  await expect(checkCarrier(home.database, kafkaCarrier)).resolves.toBeUndefined();
});
