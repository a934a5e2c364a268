import { expect, test } from "vitest";
import { type Arrow, arrowLines, differencesOf, SOURCES } from "./arrow_table.ts";

/** The table as it should be: what is not as in an empty one is said, and said the other way round. */
const untried = differencesOf([]).map((line) => line.replace(" was not tried", "").split(" → "));
const closed: Arrow[] = untried.map(([from = "", to = ""]) => ({ from, to, open: false }));
const missing = new Set(differencesOf(closed));
const right = closed.map((arrow) => ({
  ...arrow,
  open: missing.has(`${arrow.from} → ${arrow.to} is closed`),
}));

test("a cluster that lets through what it should, and nothing else, has no differences", () => {
  expect(differencesOf(right)).toEqual([]);
  expect(right.length).toBe(SOURCES.length * 11);
  expect(right.filter(({ open }) => open).length).toBe(28);
});

test.each(right)("$from → $to the other way round is the one difference", (arrow) => {
  const turned = right.map((one) => (one === arrow ? { ...one, open: !one.open } : one));
  expect(differencesOf(turned)).toEqual([`${arrow.from} → ${arrow.to} is ${arrow.open ? "closed" : "open"}`]);
});

test("an arrow that was not tried, or that nobody has named, is a difference", () => {
  const [first, ...others] = right as [Arrow, ...Arrow[]];
  expect(differencesOf(others)).toEqual([`${first.from} → ${first.to} was not tried`]);
  const more = { from: "api", to: "moon", open: false };
  expect(differencesOf([...right, more])).toEqual(["api → moon is not in the table"]);
});

test("the table for people has a row for each source and marks what is open", () => {
  const lines = arrowLines(right);
  expect(lines).toHaveLength(SOURCES.length + 1);
  expect(lines.join("\n").match(/\bopen\b/g)).toHaveLength(28);
});
