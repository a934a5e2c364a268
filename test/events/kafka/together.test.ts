import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { workTogether } from "../../../src/events/kafka/together.ts";

/** Work that ends when it is let go, and what it was given. */
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

test("a call begins immediately; those that come meanwhile share the next run, in their order", async () => {
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

test("a run has no more items than it may, and a larger call is a run by itself", async () => {
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

test("a run that fails fails its own calls, and the next ones go on", async () => {
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

test("those that wait can be made to leave: the run that has begun ends as ever, and later calls are taken", async () => {
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
