import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { workTogether } from "../../../src/events/kafka/together.ts";

/** Creates work that ends when the test allows it, and records the items of each run. */
function gated(most: number) {
  const runs: string[][] = [];
  let gates: PromiseWithResolvers<void>[] = [];
  const { work: together, leave } = workTogether<string>(async (items) => {
    runs.push(items);
    const gate = Promise.withResolvers<void>();
    gates.push(gate);
    await gate.promise;
  }, most);
  return {
    together,
    leave,
    runs,
    async letGo(error?: Error) {
      const [gate] = gates;
      gates = gates.slice(1);
      if (error === undefined) gate?.resolve();
      else gate?.reject(error);
      await sleep(1);
    },
  };
}

test("a call starts immediately, and calls that arrive meanwhile share the next run in order", async () => {
  const { together, runs, letGo } = gated(10);
  const calls = [together(["a"]), together(["b", "c"]), together(["d"])];
  expect(runs).toEqual([["a"]]);
  await letGo();
  expect(runs).toEqual([["a"], ["b", "c", "d"]]);
  await letGo();
  await Promise.all(calls);
  const later = together(["e"]);
  expect(runs.at(-1)).toEqual(["e"]);
  await letGo();
  await later;
});

test("a run has at most the allowed number of items, except for a single larger call", async () => {
  const { together, runs, letGo } = gated(3);
  const calls = [
    together(["a"]),
    together(["b", "c"]),
    together(["d"]),
    together(["e"]),
    together([..."wxyz"]),
  ];
  for (let n = 0; n < 4; n += 1) await letGo();
  await Promise.all(calls);
  expect(runs).toEqual([["a"], ["b", "c", "d"], ["e"], [..."wxyz"]]);
});

test("a failing run rejects only its own calls, and later runs continue", async () => {
  const { together, letGo } = gated(10);
  const first = together(["a"]);
  const failing = [together(["b"]), together(["c"])];
  const all = Promise.allSettled(failing);
  await letGo();
  const next = together(["d"]);
  await letGo(new Error("the database is away"));
  await letGo();
  await Promise.all([first, next]);
  expect((await all).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
});

test("leave() rejects waiting calls, while the current run finishes and later calls work", async () => {
  const { together, leave, runs, letGo } = gated(10);
  const first = together(["a"]);
  const waiting = Promise.allSettled([together(["b"]), together(["c"])]);
  leave(new Error("the group moved on"));
  expect((await waiting).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  await letGo();
  await first;
  const later = together(["d"]);
  await letGo();
  await later;
  expect(runs).toEqual([["a"], ["d"]]);
});
