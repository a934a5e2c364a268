import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ApiError } from "../../../src/errors.ts";
import {
  createFairQueue,
  type FairQueueBounds,
  type StepAside,
} from "../../../src/proofs/admission/fair_queue.ts";

const LONG_MS = 60_000;

/** Returns a share that does not depend on other accounts' calls. */
const just = (calls: number) => ({ least: calls, most: calls });

/** Functions that finish a queue's calls. A queue with waiting calls ticks during other test files, too. */
const finishing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const finish of finishing.splice(0)) await finish();
});

/** Creates a queue whose calls the test can finish. `begun` lists their accounts in the order of starts. */
function steeredQueue(bounds: Partial<FairQueueBounds>) {
  const refusals: string[] = [];
  const queue = createFairQueue(
    { places: 2, share: just(2), waitMs: LONG_MS, most: 100, longMs: LONG_MS, ...bounds },
    (refusal) => refusals.push(refusal),
  );
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const asides: StepAside[] = [];
  const call = (accountId: string) =>
    queue
      .run(accountId, async (stepAside) => {
        begun.push(accountId);
        asides.push(stepAside);
        await new Promise<void>((resolve) => ends.push(resolve));
        return `${accountId} done`;
      })
      .catch((error: unknown) => {
        if (error instanceof ApiError) return `${error.code} ${error.headers["retry-after"]}`;
        throw error;
      });
  const calls = (...accounts: string[]) => accounts.map(call);
  const start = (...accounts: string[]) => void calls(...accounts);
  const endNext = async () => {
    ends.shift()?.();
    await sleep(0);
  };
  finishing.push(async () => {
    while (ends.length > 0) await endNext();
  });
  return { queue, begun, refusals, call, calls, start, endNext, asides };
}

describe("the fair queue", () => {
  test("runs as many calls as there are slots, and starts the next call when one finishes", async () => {
    const { queue, begun, calls, endNext } = steeredQueue({});
    const [first] = calls("a", "a", "a");
    await sleep(0);
    expect([begun, queue.running, queue.waiting]).toEqual([["a", "a"], 2, 1]);
    await endNext();
    expect(await first).toBe("a done");
    expect([begun, queue.running, queue.waiting]).toEqual([["a", "a", "a"], 2, 0]);
  });

  test("serves the accounts in rotation, however many calls of one account wait", async () => {
    const { begun, start, endNext } = steeredQueue({ places: 1, share: just(1) });
    start("a", "a", "a", "a", "b", "b", "c");
    for (let n = 0; n < 7; n += 1) await endNext();
    expect(begun.join(" ")).toBe("a a b c a b a");
  });

  test("gives an account all slots while no other account calls, and only a share while other accounts call", async () => {
    const { queue, begun, start, endNext } = steeredQueue({ places: 4, share: just(2) });
    start("a", "a", "a", "a", "a");
    await sleep(0);
    expect([queue.running, queue.waiting]).toEqual([4, 1]);
    start("b", "b", "b");
    await endNext();
    await endNext();
    await endNext();
    expect(begun.join("")).toBe("aaaabba");
    await endNext();
    await endNext();
    expect([queue.running, queue.waiting]).toEqual([3, 0]);
    expect(begun.join("")).toBe("aaaabbab");
  });

  test("frees the slot of a call that fails", async () => {
    const { queue, call, endNext } = steeredQueue({ places: 1, share: just(1) });
    await expect(queue.run("a", () => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
    const next = call("a");
    await endNext();
    expect(await next).toBe("a done");
    expect(queue.running).toBe(0);
  });

  test("frees a call's slot when stepAside is called, but only once", async () => {
    const { queue, begun, asides, start, endNext } = steeredQueue({ places: 1, share: just(1) });
    start("a", "b", "c");
    await sleep(0);
    asides[0]?.();
    asides[0]?.();
    await sleep(0);
    expect([begun, queue.running, queue.waiting]).toEqual([["a", "b"], 1, 1]);
    await endNext();
    expect([begun, queue.running, queue.waiting]).toEqual([["a", "b"], 1, 1]);
    await endNext();
    expect(begun).toEqual(["a", "b", "c"]);
  });

  test("gives an account the usual share after one of the account's calls has freed its slot early and finished", async () => {
    const { queue, begun, asides, start, endNext } = steeredQueue({ places: 4, share: just(1) });
    start("a");
    await sleep(0);
    asides[0]?.();
    await endNext();
    start("b", "a", "a");
    await sleep(0);
    expect([begun, queue.waiting]).toEqual([["a", "b", "a"], 1]);
  });

  test("frees the slot of a call that takes long", async () => {
    const { queue, begun, start } = steeredQueue({ places: 1, share: just(1), longMs: 60 });
    start("a", "b");
    await sleep(0);
    expect(begun).toEqual(["a"]);
    await expect.poll(() => begun).toEqual(["a", "b"]);
    expect([queue.running, queue.waiting]).toEqual([1, 0]);
  });
});

describe("the fair queue with several accounts", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
  afterEach(() => void vi.useRealTimers());

  test.each([
    [1, 2],
    [3, 3],
    [9, 4],
  ])(
    "while a second account has %i calls, gives the first account %i slots, between the minimum and the maximum",
    async (others, own) => {
      const { begun, start } = steeredQueue({ places: 20, share: { least: 2, most: 4 } });
      start(..."b".repeat(others), ..."a".repeat(9));
      await sleep(0);
      expect(begun.filter((account) => account === "a")).toHaveLength(own);
    },
  );

  test("gives two busy accounts the maximum number of slots, and gives a third account with few calls as many as it needs", async () => {
    const { begun, start, endNext } = steeredQueue({ places: 20, share: { least: 2, most: 4 } });
    start(..."a".repeat(20), ..."b".repeat(9), ..."ccc");
    await sleep(0);
    for (let n = 0; n < 16; n += 1) await endNext();
    expect(begun.slice(0, 20).join("")).toBe("a".repeat(20));
    expect(begun.slice(20).sort().join("")).toBe("bbbbccc");
  });

  test.each([
    ["just now", 0, 2],
    ["a fifth of a second ago", 201, 4],
    ["two seconds ago", 2_001, 9],
  ])("if a second account called %s (%i ms), gives the first account %i slots", async (_, ms, own) => {
    const { queue, start, endNext } = steeredQueue({ places: 20, share: { least: 2, most: 4 } });
    start("b");
    await endNext();
    vi.advanceTimersByTime(ms);
    start(..."a".repeat(9));
    expect([queue.running, queue.waiting]).toEqual([own, 9 - own]);
  });
});

describe("the fair queue, for a call that gets no slot,", () => {
  test("refuses the call after the waiting time without starting it", async () => {
    const { queue, begun, refusals, calls } = steeredQueue({ places: 1, share: just(1), waitMs: 50 });
    const since = performance.now();
    const [, second, third] = calls("a", "a", "b");
    expect([await second, await third]).toEqual(["unavailable 1", "unavailable 1"]);
    expect(performance.now() - since).toBeGreaterThanOrEqual(49);
    expect([begun, refusals, queue.waiting]).toEqual([["a"], ["late", "late"], 0]);
  });

  test("refuses such calls only a few at a time, so that running calls continue", async () => {
    const { queue, refusals, calls } = steeredQueue({ places: 1, share: just(1), waitMs: 30 });
    const refused = Promise.all(calls(...Array.from({ length: 30 }, () => "a")).slice(1));
    let [seen, most] = [0, 0];
    while (queue.waiting > 0) {
      await new Promise(setImmediate);
      most = Math.max(most, refusals.length - seen);
      seen = refusals.length;
    }
    await refused;
    expect(refusals).toHaveLength(29);
    expect(most).toBeLessThanOrEqual(8);
  });

  describe("under a simulated clock", () => {
    beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "performance"] }));
    afterEach(() => void vi.useRealTimers());

    test("does not start the call after the waiting time, even if a slot becomes free before the refusal", async () => {
      const { queue, begun, refusals, calls, endNext } = steeredQueue({
        places: 1,
        share: just(1),
        waitMs: 1_010,
      });
      const [, late] = calls("a", "a");
      await vi.advanceTimersByTimeAsync(1_015);
      const [after] = calls("a");
      await endNext();
      await endNext();
      expect([await after, begun, refusals, queue.waiting]).toEqual(["a done", ["a", "a"], [], 1]);
      await vi.advanceTimersByTimeAsync(10);
      expect([await late, refusals]).toEqual(["unavailable 1", ["late"]]);
    });

    /**
     * Starts calls of which the queue refuses all but the first. Returns the time until the last refusal, and
     * the largest number of refusals within 2 ms.
     */
    async function refuseAll(accounts: readonly string[]) {
      const { queue, refusals, start } = steeredQueue({
        places: 1,
        share: just(1),
        waitMs: 1_000,
        most: 4_096,
      });
      start(...accounts);
      await vi.advanceTimersByTimeAsync(999);
      expect(refusals).toEqual([]);
      let [ms, most] = [999, 0];
      for (; queue.waiting > 0; ms += 2) {
        const before = refusals.length;
        await vi.advanceTimersByTimeAsync(2);
        most = Math.max(most, refusals.length - before);
      }
      return { ms, most };
    }

    test.each([
      ["from one account", () => "a"],
      ["from different accounts", (_: unknown, n: number) => `account ${n}`],
    ])("refuses thousands of calls %s within two thirds of a second, 64 at a time", async (_, accountOf) => {
      const { ms, most } = await refuseAll(Array.from({ length: 4_097 }, accountOf));
      expect(ms).toBeLessThan(1_667);
      expect([most > 8, most <= 64]).toEqual([true, true]);
    });

    test("refuses the call without waiting for the refusals of an account with more calls", async () => {
      const { queue, calls, start } = steeredQueue({ places: 1, share: just(1), waitMs: 1_000, most: 4_096 });
      start(...Array.from({ length: 4_000 }, () => "a"));
      const [other] = calls("b");
      await vi.advanceTimersByTimeAsync(1_030);
      expect(await other).toBe("unavailable 1");
      expect(queue.waiting).toBeGreaterThan(2_000);
    });
  });

  test("refuses the call immediately if the queue is full and the call's account has the most waiting calls", async () => {
    const { queue, refusals, call, start } = steeredQueue({ places: 1, share: just(1), most: 3 });
    start("a", "a", "a", "b");
    expect(await call("a")).toBe("unavailable 1");
    expect([refusals, queue.waiting]).toEqual([["full"], 3]);
  });

  test("makes room for the call by refusing the newest call of the account with the most calls", async () => {
    const { begun, refusals, call, calls, endNext } = steeredQueue({ places: 1, share: just(1), most: 3 });
    const [, , , newest] = calls("a", "a", "a", "a");
    const other = call("b");
    expect(await newest).toBe("unavailable 1");
    for (let n = 0; n < 4; n += 1) await endNext();
    expect(await other).toBe("b done");
    expect([begun.join(""), refusals]).toEqual(["aaba", ["full"]]);
  });

  test("refuses no other call if the call's account would then have the most calls", async () => {
    const { queue, refusals, call, start } = steeredQueue({ places: 1, share: just(1), most: 3 });
    start("x", "a", "a", "b");
    expect(await call("b")).toBe("unavailable 1");
    expect([refusals, queue.waiting]).toEqual([["full"], 3]);
  });
});

test("the fair queue loses no call and no slot while calls finish, fail and free their slots early", async () => {
  const places = 5;
  let [most, running] = [0, 0];
  const queue = createFairQueue({
    places,
    share: just(2),
    waitMs: LONG_MS,
    most: 10_000,
    longMs: LONG_MS,
  });
  const one = (n: number) =>
    queue.run(`account ${n % 7}`, async (stepAside) => {
      running += 1;
      most = Math.max(most, running);
      await sleep(n % 3);
      running -= 1;
      if (n % 5 === 0) stepAside();
      await sleep(n % 2);
      if (n % 11 === 0) throw new Error("broken");
      return n;
    });
  const results = await Promise.allSettled(Array.from({ length: 2_000 }, (_, n) => one(n)));
  expect(results.filter(({ status }) => status === "rejected")).toHaveLength(Math.ceil(2_000 / 11));
  expect(most).toBeLessThanOrEqual(places);
  expect([queue.running, queue.waiting]).toEqual([0, 0]);
});
