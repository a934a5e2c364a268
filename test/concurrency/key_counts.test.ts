import { expect, test } from "vitest";
import { createKeyCounts } from "../../src/concurrency/key_counts.ts";

test("each key has its own count, up to the limit that the caller passes", () => {
  const counts = createKeyCounts();
  expect([counts.enter("a", 2), counts.enter("a", 2), counts.enter("a", 2), counts.enter("b", 2)]).toEqual([
    true,
    true,
    false,
    true,
  ]);
  counts.leave("a");
  counts.leave("c");
  expect(["a", "b", "c"].map(counts.count)).toEqual([1, 1, 0]);
  expect(counts.enter("a", 2)).toBe(true);
});

test("a call of leave wakes all callers that wait for the key, and only a limited number of callers can wait", async () => {
  const counts = createKeyCounts({ mostWaiting: 2 });
  expect(counts.nextEnd("a")).toBeUndefined();
  counts.enter("a");
  counts.enter("a");
  const waiting = [counts.nextEnd("a"), counts.nextEnd("a")];
  expect(counts.nextEnd("a")).toBeUndefined();
  counts.leave("b");
  counts.leave("a");
  await Promise.all(waiting);
  expect(counts.nextEnd("a")).toBeInstanceOf(Promise);
});
