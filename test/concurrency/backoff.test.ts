import { describe, expect, test } from "vitest";
import { backoff, jittered } from "../../src/concurrency/backoff.ts";

describe("backoff", () => {
  test.each([
    ["starts at the base", { base: 100, cap: 5_000 }, 1, 100],
    ["doubles after each further failure", { base: 100, cap: 5_000 }, 4, 800],
    ["stops at the cap", { base: 100, cap: 5_000 }, 7, 5_000],
    ["stays at the cap after any number of failures", { base: 100, cap: 5_000 }, 1e9, 5_000],
    ["stays at a cap that is below the base", { base: 100, cap: 50 }, 1, 50],
    ["grows by the given factor", { base: 1, cap: 100, factor: 3 }, 4, 27],
  ])("%s", (_name, waits, failures, expected) => {
    expect(backoff(waits, failures)).toBe(expected);
  });

  test("multiplies the capped wait by a random factor", () => {
    const waits = { base: 100, cap: 5_000, jitter: [0.5, 1] } as const;
    expect([0, 0.5, 0.75].map((random) => backoff(waits, 100, () => random))).toEqual([2_500, 3_750, 4_375]);
  });
});

test("jitter can make a wait longer or shorter", () => {
  expect([0, 0.5].map((random) => jittered(1_000, [0.75, 1.25], random))).toEqual([750, 1_000]);
});
