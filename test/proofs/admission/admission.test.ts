import { Registry } from "prom-client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createDecisionQueue } from "../../../src/proofs/admission/admission.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
afterEach(() => void vi.useRealTimers());

test.each([
  ["64 while no other account calls", 0, 64],
  ["4 while another account has one call", 1, 4],
  ["6 while another account has six calls", 6, 6],
  ["8 while another account has 20 calls", 20, 8],
])("the decision queue limits the concurrent calls of one account: %s", async (_, others, own) => {
  const queue = createDecisionQueue({ registry: new Registry() });
  const { promise: end, resolve } = Promise.withResolvers<void>();
  const theirs = Array.from({ length: others }, () => queue.run("other", () => end));
  let begun = 0;
  const ours = Array.from({ length: 100 }, () =>
    queue.run("one", () => {
      begun += 1;
      return end;
    }),
  );
  await new Promise(setImmediate);
  expect(begun).toBe(own);
  resolve();
  await Promise.all([...theirs, ...ours]);
  expect([queue.running, queue.waiting]).toEqual([0, 0]);
});
