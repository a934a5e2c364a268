import { expect, test } from "vitest";
import { structureBytes } from "../../../src/protocol/documents/certificate_memory.ts";

test.each<[string, unknown, number]>([
  ["a number", 1, 20],
  ["null", null, 10],
  ["a list of lists", Array.from({ length: 1_000 }, () => [0]), 260_000],
  ["empty objects", Array.from({ length: 1_000 }, () => ({})), 130_000],
  ["lists within lists", Array.from({ length: 1_000 }, () => [[[[[[0]]]]]]), 1_490_000],
  ["objects with different names", Array.from({ length: 1_000 }, (_, n) => ({ [n]: 0 })), 400_000],
  ["one object", Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`k${n}`, 0])), 150_000],
])(
  "%s: the estimated memory is at least the measured memory, and at most four times as much",
  (_, value, measured) => {
    expect(structureBytes(value)).toBeGreaterThanOrEqual(measured * 0.95);
    expect(structureBytes(value)).toBeLessThanOrEqual(measured * 4);
  },
);
