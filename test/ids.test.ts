import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { isMadeWith, isUuid, newIdAt, timeOfId } from "../src/ids.ts";

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

test("newIdAt with given bytes returns an id that ends with five of them, and that increases", () => {
  const [time, bytes] = [new Date(1_763_725_550_123), randomBytes(32)];
  const ids = [newIdAt(time), newIdAt(time, bytes), newIdAt(time), newIdAt(time, bytes), newIdAt(time)];
  expect([...ids].sort()).toEqual(ids);
  expect(new Set(ids).size).toBe(5);
  expect(ids.map((id) => isMadeWith(id, bytes))).toEqual([false, true, false, true, false]);
  expect(ids.every((id) => isUuid(id) && timeOfId(id)?.getTime() === time.getTime())).toBe(true);
});

test("timeOfId returns undefined for an id of a different UUID version", () => {
  expect(timeOfId("0192f3a0-0000-4000-8000-000000000000")).toBeUndefined();
});
