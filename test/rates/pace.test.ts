import { expect, test } from "vitest";
import { createPace } from "../../src/rates/pace.ts";
import { steeredClock } from "../support/clock.ts";

const start = new Date("2026-05-01T10:00:00.000Z");

function taken(perMinute: number) {
  const clock = steeredClock(start);
  const pace = createPace({ perMinute, clock });
  const take = (times: number) => Array.from({ length: times }, () => pace.take("a").admitted);
  return { clock, pace, take };
}

test.each([1, 3, 7, 600])("a pace of %d admits exactly that many calls immediately", (perMinute) => {
  const { pace, take } = taken(perMinute);
  expect(take(perMinute)).not.toContain(false);
  expect(take(2)).toEqual([false, false]);
  expect(pace.take("b").admitted).toBe(true);
});

test.each([1, 3, 7, 600])(
  "a pace of %d restores one call after a minute divided by this number, and all calls after a minute",
  (perMinute) => {
    const { clock, pace, take } = taken(perMinute);
    take(perMinute);
    const { waitMs } = pace.look("a");
    expect(waitMs).toBeCloseTo(60_000 / perMinute);
    clock.advance((Math.ceil(waitMs) - 1) / 1000);
    expect(take(1)).toEqual([false]);
    clock.advance(0.001);
    expect(take(2)).toEqual([true, false]);
    clock.advance(60);
    expect(take(perMinute + 1)).toEqual([...Array.from({ length: perMinute }, () => true), false]);
  },
);

test("a pace of 0 admits nothing", () => {
  const { take, pace } = taken(0);
  expect(take(1)).toEqual([false]);
  expect(pace.look("a")).toMatchObject({ remaining: 0, waitMs: 60_000 });
});

test("looking at the state of a pace does not count as a call", () => {
  const { pace } = taken(1);
  for (let n = 0; n < 3; n += 1) {
    expect(pace.look("a")).toMatchObject({ admitted: true, remaining: 1, resetMs: 0 });
  }
});

test("a pace admits calls again if the clock is set back", () => {
  const { clock, take } = taken(2);
  take(2);
  clock.set(new Date(start.getTime() - 3_600_000));
  expect(take(3)).toEqual([true, true, false]);
});

test("every pace from 1 to 64 admits exactly its number of calls at one moment, even if more calls arrive", () => {
  const wrong: number[] = [];
  for (let perMinute = 1; perMinute <= 64; perMinute += 1) {
    const admitted = taken(perMinute).take(2 * perMinute + 2);
    if (admitted.indexOf(false) !== perMinute || admitted.includes(true, perMinute)) wrong.push(perMinute);
  }
  expect(wrong).toEqual([]);
});

test.each([7, 9, 33, 62, 119])(
  "a pace of %d admits its initial calls and the calls restored in three minutes, if it is called every 5 ms",
  (perMinute) => {
    const { clock, pace } = taken(perMinute);
    let admitted = 0;
    for (let passed = 0; passed <= 180_000; passed += 5) {
      if (pace.take("a").admitted) admitted += 1;
      clock.advance(0.005);
    }
    expect(admitted).toBeGreaterThanOrEqual(4 * perMinute - 1);
    expect(admitted).toBeLessThanOrEqual(4 * perMinute);
  },
);

test("a pace uses memory only for the keys that were used", () => {
  const clock = steeredClock(start);
  const before = process.memoryUsage().arrayBuffers;
  const paces = Array.from({ length: 20 }, () => createPace({ perMinute: 60, clock }));
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1_000_000);
  for (const pace of paces) expect(pace.take("a").admitted).toBe(true);
});

test("a pace stores the 100,000 most recently used keys", () => {
  const pace = createPace({ perMinute: 1, clock: steeredClock(start) });
  pace.take("first");
  pace.take("second");
  for (let n = 0; n < 99_999; n += 1) pace.take(`key ${n}`);
  expect([pace.take("second").admitted, pace.take("first").admitted]).toEqual([false, true]);
});
