import { randomUUID } from "node:crypto";
import { beforeEach, expect, test } from "vitest";
import { createRelay } from "../../src/events/relay.ts";
import { createShardLeases } from "../../src/events/shards.ts";
import { makeConnection } from "./support/connection.ts";
import { useDatabase } from "./support/database.ts";
import { append, deniedEvent, recordingBus, requestIdOf } from "./support/events.ts";
import { virtualClock } from "./support/time.ts";

const home = useDatabase();

/** Creates a relay that owns every shard, unless other workers own some. */
async function startRelay(leaseSeconds?: number) {
  const workerId = randomUUID();
  const clock = virtualClock();
  const bus = recordingBus();
  const leases = createShardLeases(home.database, workerId, leaseSeconds);
  await leases.renew();
  const relay = createRelay({ database: home.database, bus, clock, workerId });
  return { relay, bus, clock, leases, workerId };
}

const waiting = async () => (await home.database("outbox").select("id")).length;
const ids = (count: number, name = "r") => Array.from({ length: count }, (_, n) => `${name}-${n}`);

beforeEach(async () => {
  await home.database("outbox").delete();
  await home.database("relay_workers").delete();
  await home.database("relay_shards").update({ owner: null, held_until: new Date(0) });
});

test("the relay publishes complete events in the order of the outbox, and deletes them", async () => {
  const { relay, bus } = await startRelay();
  const connection = await makeConnection(home.database, null);
  for (const id of ids(5)) await append(home.database, deniedEvent(connection, id));
  const [row] = await home.database("outbox").orderBy("id");
  expect(await relay.step()).toBe(true);
  expect(bus.published.map(requestIdOf)).toEqual(ids(5));
  expect(bus.published[0]).toEqual({
    eventId: row!.event_id,
    type: "delegation.denied",
    aggregateType: "connection",
    aggregateId: connection.connectionId,
    aggregateSeq: 1,
    schemaVersion: 1,
    payload: row!.payload,
    headers: {},
    createdAt: row!.created_at,
  });
  expect(await waiting()).toBe(0);
});

test("the relay keeps events that the bus rejects, and publishes them later", async () => {
  const { relay, bus } = await startRelay();
  const connection = await makeConnection(home.database, null);
  for (const id of ids(3)) await append(home.database, deniedEvent(connection, id));
  bus.failing = true;
  await expect(relay.step()).rejects.toThrow("the bus is away");
  expect(await waiting()).toBe(3);
  bus.failing = false;
  await relay.step();
  expect(bus.published.map(requestIdOf)).toEqual(ids(3));
});

test("the relay reads at most 500 rows at a time", async () => {
  const { relay, bus } = await startRelay();
  const connection = await makeConnection(home.database, null);
  await home.database.transaction(async (tx) => {
    for (const id of ids(501)) await append(tx, deniedEvent(connection, id));
  });
  await relay.step();
  expect([bus.published.length, await waiting()]).toEqual([500, 1]);
  await relay.step();
  expect([bus.published.length, await waiting()]).toEqual([501, 0]);
});

test("the relay reads at most 1 MiB at a time, or one larger row", async () => {
  const { relay, bus } = await startRelay();
  const connection = await makeConnection(home.database, null);
  for (const id of ids(4)) await append(home.database, deniedEvent(connection, id));
  await home.database("outbox").update({ payload: JSON.stringify({ request_id: "x".repeat(400_000) }) });
  const counts: number[] = [];
  while (await waiting()) {
    await relay.step();
    counts.push(bus.published.length);
  }
  expect(counts).toEqual([2, 4]);
  await append(home.database, deniedEvent(connection, "huge"));
  await home.database("outbox").update({ payload: JSON.stringify({ request_id: "x".repeat(2_000_000) }) });
  await relay.step();
  expect([bus.published.length, await waiting()]).toEqual([5, 0]);
});

test("the relay does not miss a transaction that commits after later rows were published", async () => {
  const { relay, bus } = await startRelay();
  const slow = await makeConnection(home.database, null);
  const fast = await makeConnection(home.database, null);
  const late = await home.database.transaction();
  await append(late, deniedEvent(slow, "late"));
  await append(home.database, deniedEvent(fast, "early"));
  await relay.step();
  expect(bus.published.map(requestIdOf)).toEqual(["early"]);
  await late.commit();
  while (await waiting()) await relay.step();
  expect(bus.published.map(requestIdOf)).toEqual(["early", "late"]);
});

test("the relay finds a late row within 5 s while newer rows arrive", async () => {
  const { relay, bus, clock } = await startRelay();
  const slow = await makeConnection(home.database, null);
  const fast = await makeConnection(home.database, null);
  const late = await home.database.transaction();
  await append(late, deniedEvent(slow, "late"));
  await append(home.database, deniedEvent(fast, "one"));
  await relay.step();
  await late.commit();
  await append(home.database, deniedEvent(fast, "two"));
  await relay.step();
  expect(bus.published.map(requestIdOf)).toEqual(["one", "two"]);
  clock.advance(5);
  await append(home.database, deniedEvent(fast, "three"));
  await relay.step();
  expect(bus.published.map(requestIdOf)).toEqual(["one", "two", "late", "three"]);
});

test("the relay never lets a connection's newer event overtake a late one", async () => {
  const { relay, bus } = await startRelay();
  const slow = await makeConnection(home.database, null);
  const fast = await makeConnection(home.database, null);
  const late = await home.database.transaction();
  await append(late, deniedEvent(slow, "slow-1"));
  await append(home.database, deniedEvent(fast, "fast-1"));
  await relay.step();
  await late.commit();
  await append(home.database, deniedEvent(slow, "slow-2"));
  await append(home.database, deniedEvent(slow, "slow-3"));
  await append(home.database, deniedEvent(fast, "fast-2"));
  await relay.step();
  expect(bus.published.map(requestIdOf)).toEqual(["fast-1", "fast-2"]);
  await append(home.database, deniedEvent(fast, "fast-3"));
  await relay.step();
  expect(bus.published.map(requestIdOf).slice(2)).toEqual(["slow-1", "slow-2", "slow-3", "fast-3"]);
});

test("the relay reads nothing from shards of other workers", async () => {
  const { bus, relay } = await startRelay();
  await home.database("relay_shards").update({ owner: randomUUID() });
  const connection = await makeConnection(home.database, null);
  await append(home.database, deniedEvent(connection, "r"));
  expect(await relay.step()).toBe(false);
  expect([bus.published.length, await waiting()]).toEqual([0, 1]);
});

test.each([
  ["lost its shards while publishing", (owner: string) => ({ owner, epoch: 99 })],
  ["lost and regained its shards", () => ({ epoch: 99 })],
])("the relay deletes nothing if it %s", async (_, change) => {
  const { bus, relay } = await startRelay();
  const connection = await makeConnection(home.database, null);
  await append(home.database, deniedEvent(connection, "r"));
  const publish = bus.publish;
  bus.publish = async (events) => {
    await publish(events);
    await home.database("relay_shards").update(change(randomUUID()));
  };
  await relay.step();
  expect([bus.published.length, await waiting()]).toEqual([1, 1]);
});

test("the relay has no open transaction while the bus works", async () => {
  const { bus, relay } = await startRelay();
  const connection = await makeConnection(home.database, null);
  await append(home.database, deniedEvent(connection, "r"));
  const open: unknown[] = [];
  bus.publish = async () => {
    const { rows } = await home.database.raw(
      `select state from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
       and backend_type = 'client backend' and (xact_start is not null or state like 'idle in transaction%')`,
    );
    open.push(...rows);
  };
  await relay.step();
  expect(open).toEqual([]);
});
