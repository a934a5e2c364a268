import { expect, test } from "vitest";
import { idFrom, isUuid, newIdAt, timeOfId } from "../src/ids.ts";

test.each([0, 1, 1_763_725_550_123, 2 ** 48 - 1])(
  "an id contains the time for which it was created, in milliseconds: %d",
  (ms) => {
    const ids = Array.from({ length: 100 }, () => newIdAt(new Date(ms)));
    expect(new Set(ids).size).toBe(100);
    expect([...ids].sort()).toEqual(ids);
    for (const id of ids) {
      expect(isUuid(id)).toBe(true);
      expect(timeOfId(id)?.getTime()).toBe(ms);
    }
  },
);

test("idFrom returns the same id for the same time and bytes, and another id for others", () => {
  const [time, bytes] = [new Date(1_763_725_550_123), Buffer.alloc(32, 7)];
  const id = idFrom(time, bytes);
  expect([isUuid(id), timeOfId(id), idFrom(time, bytes)]).toEqual([true, time, id]);
  expect(idFrom(time, Buffer.alloc(32, 8))).not.toBe(id);
  expect(idFrom(new Date(time.getTime() + 1), bytes)).not.toBe(id);
});

test("timeOfId returns undefined for an id of a different UUID version", () => {
  expect(timeOfId("0192f3a0-0000-4000-8000-000000000000")).toBeUndefined();
});
