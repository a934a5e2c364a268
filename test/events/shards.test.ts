import { randomUUID } from "node:crypto";
import { beforeEach, expect, test } from "vitest";
import { OUTBOX_SHARDS, shardOf } from "../../src/events/outbox.ts";
import { createShardLeases } from "../../src/events/shards.ts";
import { useDatabase } from "./support/database.ts";

const home = useDatabase();
beforeEach(async () => {
  await home.database("relay_workers").delete();
  await home.database("relay_shards").update({ owner: null, epoch: 0, held_until: new Date(0) });
});

function worker(seconds = 15) {
  const id = randomUUID();
  const leases = createShardLeases(home.database, id, seconds);
  const held = async () => (await home.database("relay_shards").where({ owner: id }).select("shard")).length;
  return { id, held, ...leases };
}

/** Makes the worker's leases and its heartbeat expire. */
async function expire(id: string): Promise<void> {
  const past = home.database.raw("now() - interval '1 second'");
  await home.database("relay_shards").where({ owner: id }).update({ held_until: past });
  await home.database("relay_workers").where({ worker_id: id }).update({ alive_until: past });
}

test("the table has exactly the shards to which connections are mapped", async () => {
  const shards = await home.database("relay_shards").orderBy("shard").pluck("shard");
  expect(shards).toEqual(Array.from({ length: OUTBOX_SHARDS }, (_, n) => n));
  const used = new Set(Array.from({ length: 1000 }, () => shardOf(randomUUID())));
  expect([...used].sort()).toEqual(shards);
});

test("a single worker takes every shard, and keeps all shards while it renews its leases", async () => {
  const alone = worker();
  await alone.renew();
  const hurried = { held_until: home.database.raw("held_until - interval '1 second'") };
  await home.database("relay_shards").where({ owner: alone.id }).update(hurried);
  const [before] = await home.database("relay_shards").orderBy("shard");
  await alone.renew();
  const [after] = await home.database("relay_shards").orderBy("shard");
  expect(await alone.held()).toBe(8);
  expect(after!.epoch).toBe(before!.epoch);
  expect(after!.held_until.getTime()).toBeGreaterThan(before!.held_until.getTime());
});

test("workers that join later receive their share", async () => {
  const [one, two, three] = [worker(), worker(), worker()];
  const all = [one, two, three];
  await one.renew();
  for (let round = 0; round < 3; round++) {
    for (const each of all) {
      await each.renew();
      await each.dropSurplus();
    }
  }
  expect((await Promise.all(all.map((each) => each.held()))).sort()).toEqual([2, 3, 3]);
});

test("a worker takes a shard only after its lease has expired, and the shard's epoch increases", async () => {
  const [first, second] = [worker(), worker()];
  await first.renew();
  await second.renew();
  expect(await second.held()).toBe(0);
  await expire(first.id);
  await second.renew();
  expect(await second.held()).toBe(8);
  expect(await home.database("relay_shards").pluck("epoch")).toEqual(Array(8).fill(2));
});

test("a worker that returns late does not regain shards that others took", async () => {
  const [first, second] = [worker(), worker()];
  await first.renew();
  await expire(first.id);
  await second.renew();
  await first.renew();
  expect([await first.held(), await second.held()]).toEqual([0, 8]);
});

test("two workers that start at the same time never own the same shard", async () => {
  const all = Array.from({ length: 6 }, () => worker());
  await Promise.all(all.map((each) => each.renew()));
  await Promise.all(all.map((each) => each.renew()));
  const held = await Promise.all(all.map((each) => each.held()));
  expect(held.reduce((sum, count) => sum + count)).toBe(8);
});

test("a released shard is free immediately", async () => {
  const [first, second] = [worker(), worker()];
  await first.renew();
  await first.release();
  await second.renew();
  expect([await first.held(), await second.held()]).toEqual([0, 8]);
});
