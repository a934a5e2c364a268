import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { createBatcher } from "../../../src/events/kafka/batcher.ts";

function gated(most: number) {
  const runs: string[][] = [];
  let gates: PromiseWithResolvers<void>[] = [];
  const { work, rejectWaiting } = createBatcher<string>(async (items) => {
    runs.push(items);
    const gate = Promise.withResolvers<void>();
    gates.push(gate);
    await gate.promise;
  }, most);
  return {
    work,
    rejectWaiting,
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
  const { work, runs, letGo } = gated(10);
  const calls = [work(["a"]), work(["b", "c"]), work(["d"])];
  expect(runs).toEqual([["a"]]);
  await letGo();
  expect(runs).toEqual([["a"], ["b", "c", "d"]]);
  await letGo();
  await Promise.all(calls);
  const later = work(["e"]);
  expect(runs.at(-1)).toEqual(["e"]);
  await letGo();
  await later;
});

test("a run has at most the allowed number of items, except for a single larger call", async () => {
  const { work, runs, letGo } = gated(3);
  const calls = [work(["a"]), work(["b", "c"]), work(["d"]), work(["e"]), work([..."wxyz"])];
  for (let n = 0; n < 4; n += 1) await letGo();
  await Promise.all(calls);
  expect(runs).toEqual([["a"], ["b", "c", "d"], ["e"], [..."wxyz"]]);
});

test("a failing run rejects only its own calls, and later runs continue", async () => {
  const { work, letGo } = gated(10);
  const first = work(["a"]);
  const failing = [work(["b"]), work(["c"])];
  const all = Promise.allSettled(failing);
  await letGo();
  const next = work(["d"]);
  await letGo(new Error("the database is away"));
  await letGo();
  await Promise.all([first, next]);
  expect((await all).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
});

test("rejectWaiting() rejects waiting calls, while the current run finishes and later calls work", async () => {
  const { work, rejectWaiting, runs, letGo } = gated(10);
  const first = work(["a"]);
  const waiting = Promise.allSettled([work(["b"]), work(["c"])]);
  rejectWaiting(new Error("the group moved on"));
  expect((await waiting).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  await letGo();
  await first;
  const later = work(["d"]);
  await letGo();
  await later;
  expect(runs).toEqual([["a"], ["d"]]);
});
