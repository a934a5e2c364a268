import { expect, test } from "vitest";
import { type Report, ratiosSeen, spreadOf } from "./figures.ts";

const report: Report = {
  figures: [
    { name: "ours", unit: "ms", values: [10, 30, 20] },
    { name: "theirs", unit: "ms", values: [5, 10, 40] },
  ],
  ratios: [{ name: "ours / theirs", over: "ours", under: "theirs", aim: { atMost: 2 } }],
};

test("a spread is the middle of the rounds and both ends", () => {
  expect(spreadOf("ours", [10, 30, 20])).toEqual({ median: 20, lowest: 10, highest: 30, rounds: 3 });
});

test.each([[[]], [[1, Number.NaN]], [[Number.POSITIVE_INFINITY]]])("%j is no measurement", (values) => {
  expect(() => spreadOf("ours", values)).toThrow("ours: was not measured");
});

test("a ratio is taken round by round, not of the medians", () => {
  const [seen] = ratiosSeen(report);
  expect(seen).toMatchObject({ median: 2, lowest: 0.5, highest: 3, rounds: 3, met: true });
});

test.each([
  [{ atMost: 2 }, true],
  [{ atMost: 1.9 }, false],
  [{ atLeast: 2 }, true],
  [{ atLeast: 2.1 }, false],
])("the aim %j is met: %s", (aim, met) => {
  const ratios = [{ name: "ours / theirs", over: "ours", under: "theirs", aim }];
  expect(ratiosSeen({ ...report, ratios })[0]?.met).toBe(met);
});

test("a ratio of what was not measured, or in other rounds, is a mistake of the bench", () => {
  const of = (over: string) => ({ ...report, ratios: [{ name: "odd", over, under: "theirs" }] });
  expect(() => ratiosSeen(of("nobody's"))).toThrow('no figure is named "nobody\'s"');
  const shorter = { name: "shorter", unit: "ms", values: [1] };
  const odd = { ...of("shorter"), figures: [...report.figures, shorter] };
  expect(() => ratiosSeen(odd)).toThrow("odd: the figures have different rounds");
});
