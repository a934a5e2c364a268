import { expect, test } from "vitest";
import { type Arrow, arrowLines, differencesOf, SOURCES } from "./arrow_table.ts";

/**
 * The expected table, derived from the differences reported for an empty table and for one with only closed
 * connections.
 */
const untried = differencesOf([]).map((line) => line.replace(" was not tried", "").split(" → "));
const closed: Arrow[] = untried.map(([from = "", to = ""]) => ({ from, to, open: false }));
const missing = new Set(differencesOf(closed));
const right = closed.map((arrow) => ({
  ...arrow,
  open: missing.has(`${arrow.from} → ${arrow.to} is closed`),
}));

test("the connection table reports no differences for a cluster with exactly the expected connections", () => {
  expect(differencesOf(right)).toEqual([]);
  expect(right.length).toBe(SOURCES.length * 11);
  expect(right.filter(({ open }) => open).length).toBe(28);
});

test.each(right)("the connection table reports the single difference $from → $to", (arrow) => {
  const turned = right.map((one) => (one === arrow ? { ...one, open: !one.open } : one));
  expect(differencesOf(turned)).toEqual([`${arrow.from} → ${arrow.to} is ${arrow.open ? "closed" : "open"}`]);
});

test("the connection table reports connections that were not tried, and unknown ones", () => {
  const [first, ...others] = right as [Arrow, ...Arrow[]];
  expect(differencesOf(others)).toEqual([`${first.from} → ${first.to} was not tried`]);
  const more = { from: "api", to: "moon", open: false };
  expect(differencesOf([...right, more])).toEqual(["api → moon is not in the table"]);
});

test("the printed connection table has a row for each source, and marks open connections", () => {
  const lines = arrowLines(right);
  expect(lines).toHaveLength(SOURCES.length + 1);
  expect(lines.join("\n").match(/\bopen\b/g)).toHaveLength(28);
});
