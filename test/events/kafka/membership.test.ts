import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { keepMembership } from "../../../src/events/kafka/membership.ts";
import { virtualClock } from "../support/time.ts";

const BEAT_MS = 5;

function setUp() {
  const clock = virtualClock();
  const told: unknown[] = [];
  const group = { beats: 0, moved: undefined as Error | undefined };
  const membership = keepMembership({ clock, beatMs: BEAT_MS, left: (reason) => told.push(reason) });
  const beat = async () => {
    group.beats += 1;
    if (group.moved !== undefined) throw group.moved;
  };
  const begin = () => {
    const gate = Promise.withResolvers<void>();
    const ended = membership.during(beat, async () => {
      await gate.promise;
      await membership.progress();
    });
    return { end: gate.resolve, result: ended.then(() => "worked off", String) };
  };
  return { clock, told, group, membership, begin };
}

test("a long batch sends heartbeats while it runs, and none afterwards", async () => {
  const { group, begin, told } = setUp();
  const batch = begin();
  await expect.poll(() => group.beats).toBeGreaterThan(5);
  batch.end();
  expect(await batch.result).toBe("worked off");
  const { beats } = group;
  await sleep(10 * BEAT_MS);
  expect([group.beats, told]).toEqual([beats, []]);
});

test("a batch shorter than the heartbeat interval sends one heartbeat", async () => {
  const { group, begin } = setUp();
  const batch = begin();
  batch.end();
  expect(await batch.result).toBe("worked off");
  expect(group.beats).toBe(1);
});

test("a rebalance is reported once and ends every batch with its reason, and later batches work again", async () => {
  const { group, begin, told } = setUp();
  const batches = [begin(), begin()];
  const moved = new Error("the group is rebalancing");
  group.moved = moved;
  await expect.poll(() => told).toEqual([moved]);
  const late = begin();
  expect(await late.result).toBe(String(moved));
  for (const batch of batches) batch.end();
  expect(await Promise.all(batches.map(({ result }) => result))).toEqual([String(moved), String(moved)]);
  expect(told).toEqual([moved]);
  group.moved = undefined;
  const next = begin();
  next.end();
  expect(await next.result).toBe("worked off");
});

test("heartbeats continue while the group waits for running batches, but stop if the group no longer knows the member", async () => {
  for (const [type, goesOn] of [
    ["REBALANCE_IN_PROGRESS", true],
    ["UNKNOWN_MEMBER_ID", false],
  ] as const) {
    const { group, begin, told } = setUp();
    const batch = begin();
    group.moved = Object.assign(new Error(type), { type });
    await expect.poll(() => told.length).toBe(1);
    const { beats } = group;
    if (goesOn) await expect.poll(() => group.beats).toBeGreaterThan(beats + 1);
    else await sleep(10 * BEAT_MS);
    expect(group.beats > beats + 1).toBe(goesOn);
    batch.end();
    expect(await batch.result).toBe(`Error: ${type}`);
    expect(told).toHaveLength(1);
  }
});

test("a late rejection of a finished batch's heartbeat does not affect the next batches", async () => {
  const { membership, told } = setUp();
  const late = Promise.withResolvers<void>();
  const isAsked = Promise.withResolvers<void>();
  await membership.during(
    () => {
      isAsked.resolve();
      return late.promise;
    },
    () => isAsked.promise,
  );
  const gate = Promise.withResolvers<void>();
  const next = membership.during(
    async () => {},
    () => gate.promise,
  );
  late.reject(new Error("of an earlier generation"));
  await sleep(2 * BEAT_MS);
  gate.resolve();
  await next;
  expect(told).toEqual([]);
});

test("isReason recognizes the error that ended a batch, but not a different error with the same message", async () => {
  const { group, membership, begin, told } = setUp();
  const batch = begin();
  const moved = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
  group.moved = moved;
  await expect.poll(() => told).toEqual([moved]);
  expect(membership.isReason(moved)).toBe(true);
  expect(
    membership.isReason(Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" })),
  ).toBe(false);
  batch.end();
  await batch.result;
});

test("heartbeats stop after a minute without progress, until there is progress", async () => {
  const { clock, group, begin } = setUp();
  const batch = begin();
  clock.advance(60);
  const { beats } = group;
  await expect.poll(() => group.beats).toBeGreaterThan(beats);
  clock.advance(1);
  const stuck = group.beats;
  await sleep(10 * BEAT_MS);
  expect(group.beats - stuck).toBeLessThan(2);
  batch.end();
  expect(await batch.result).toBe("worked off");
  expect(group.beats).toBeGreaterThan(stuck);
});
