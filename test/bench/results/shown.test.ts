import { expect, test } from "vitest";
import type { Report } from "./figures.ts";
import { createRecord } from "./record.ts";
import { shown, tablesOf } from "./tables.ts";

const report: Report = {
  figures: [
    { name: "verify, <cold>", unit: "µs", values: [820, 900, 830] },
    { name: "verify, warm", unit: "µs", values: [400, 410, 450] },
  ],
  ratios: [{ name: "cold / warm", over: "verify, <cold>", under: "verify, warm", aim: { atMost: 2 } }],
};

test("a report is two tables, and an aim that is not met stands out", () => {
  expect(tablesOf(report).split("\n")).toEqual([
    "                 median   lowest   highest",
    "verify, <cold>      830      820       900   µs",
    "verify, warm        410      400       450   µs",
    "",
    "ratio         median   lowest   highest   aim         met",
    "cold / warm     2.05     1.84       2.2   at most 2   NO",
    "",
  ]);
  expect(tablesOf({ figures: report.figures })).not.toContain("ratio");
});

test.each([
  [0, "0"],
  [0.0123, "0.0123"],
  [1.234, "1.23"],
  [45.67, "45.7"],
  [1829.4, "1,829"],
])("%d is shown as %s", (value, text) => {
  expect(shown(value)).toBe(text);
});

test("a record keeps figures in their order, and one unit for each", () => {
  const record = createRecord();
  record.add("b", "ms", 1);
  record.add("a", "s", 2);
  record.add("b", "ms", 3);
  expect(record.figures()).toEqual([
    { name: "b", unit: "ms", values: [1, 3] },
    { name: "a", unit: "s", values: [2] },
  ]);
  expect(() => record.add("a", "ms", 4)).toThrow("a: is in s, not in ms");
});
