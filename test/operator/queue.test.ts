import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type Key, keyText } from "../../src/operator/kinds.ts";
import { createQueue, type Queue, type Visit } from "../../src/operator/queue.ts";
import { createPace, type Pace } from "../../src/rates/pace.ts";

const key = (name: string, namespace = "default"): Key => ({ kind: "Platform", namespace, name });

type Step = { add: string; urgent: boolean } | { end: number; visit: Visit } | { pass: number };
type Run = { key: string; failures: number; end(visit: Visit): void; fail(error: Error): void };

/** Creates a queue in which the test itself ends each run. */
function controlled(workers = 10, random = () => 1, pace?: Pace) {
  const runs: Run[] = [];
  const errors: unknown[] = [];
  const queue = createQueue({
    workers,
    random,
    pace,
    onError: (_, error) => errors.push(error),
    run: ({ name }, failures) =>
      new Promise<Visit>((resolve, reject) => {
        runs.push({ key: name, failures, end: resolve, fail: reject });
      }),
  });
  const next = async (): Promise<Run | undefined> => {
    await vi.advanceTimersByTimeAsync(0);
    return runs.shift();
  };
  return { queue, errors, next, runs };
}

/** Ends a run, and waits until the queue has processed the result. */
async function end(run: Run | undefined, visit: Visit = {}): Promise<void> {
  run?.end(visit);
  await vi.advanceTimersByTimeAsync(0);
}

/** Returns how many timers of the queue wait. Other test files of this process have timers, too. */
function countTimers(): () => number {
  const waiting = new Set<unknown>();
  const { setTimeout: set, clearTimeout: clear } = globalThis;
  vi.stubGlobal("setTimeout", (run: (...args: unknown[]) => void, ...others: [number, ...unknown[]]) => {
    const timer = set(
      (...args: unknown[]) => {
        waiting.delete(timer);
        run(...args);
      },
      ...others,
    );
    if (new Error().stack?.includes("/src/operator/queue.ts")) waiting.add(timer);
    return timer;
  });
  vi.stubGlobal("clearTimeout", (timer: NodeJS.Timeout | undefined) => {
    waiting.delete(timer);
    clear(timer);
  });
  return () => waiting.size;
}

describe("the operator's queue", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.useRealTimers();
  });

  test("runs a new key immediately", async () => {
    const { queue, next } = controlled();
    queue.add(key("a"));
    expect((await next())?.key).toBe("a");
  });

  test("runs a key that changes all the time only at its pace, and other keys immediately", async () => {
    const timers = countTimers();
    const pace = createPace({ perMinute: 20, clock: { now: () => new Date(Date.now()) } });
    const { queue, next } = controlled(1, () => 1, pace);
    let runs = 0;
    const change = async () => {
      queue.add(key("a"));
      const run = await next();
      if (run !== undefined) runs += 1;
      await end(run);
    };
    for (let count = 0; count < 100; count += 1) await change();
    expect([runs, timers()]).toEqual([20, 1]);
    queue.add(key("b"));
    const other = await next();
    expect(other?.key).toBe("b");
    await end(other);
    await vi.advanceTimersByTimeAsync(3_000);
    const again = await next();
    expect(again?.key).toBe("a");
    await end(again);
    await vi.advanceTimersByTimeAsync(600_000);
    expect(await next()).toBeUndefined();
    expect(timers()).toBe(0);
  });

  test("runs a key once, however often it was added before", async () => {
    const { queue, next } = controlled(1);
    queue.add(key("blocker"));
    const blocker = await next();
    for (let count = 0; count < 5; count += 1) queue.add(key("a"));
    await end(blocker);
    await end(await next());
    expect(await next()).toBeUndefined();
  });

  test("runs a key exactly once more if the key was added during its run", async () => {
    const { queue, next } = controlled();
    queue.add(key("a"));
    const first = await next();
    queue.add(key("a"));
    queue.add(key("a"));
    expect(await next()).toBeUndefined();
    await end(first);
    await end(await next());
    expect(await next()).toBeUndefined();
  });

  test("never has more runs than workers", async () => {
    const { queue, runs } = controlled(3);
    for (let count = 0; count < 10; count += 1) queue.add(key(`k${count}`));
    await vi.advanceTimersByTimeAsync(0);
    expect(runs).toHaveLength(3);
    expect(queue.depth()).toEqual({ waiting: 7, running: 3 });
  });

  test("runs a key again at the time that the previous run returned, not before", async () => {
    const { queue, next } = controlled();
    queue.add(key("a"));
    await end(await next(), { afterMs: 5000 });
    await vi.advanceTimersByTimeAsync(4999);
    expect(await next()).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    expect((await next())?.failures).toBe(0);
  });

  test("discards the scheduled time of a key that runs earlier", async () => {
    const { queue, next } = controlled();
    queue.add(key("a"));
    await end(await next(), { afterMs: 5000 });
    queue.add(key("a"));
    await end(await next());
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await next()).toBeUndefined();
  });

  test("runs a key once earlier if it is scheduled later than the longest timer allows", async () => {
    const { queue, next } = controlled();
    queue.add(key("a"));
    await end(await next(), { afterMs: 60 * 24 * 3600 * 1000 });
    await vi.advanceTimersByTimeAsync(24 * 3600 * 1000);
    expect(await next()).toBeDefined();
  });

  test("retries ordinary work after 1 s, 2 s, 4 s … 5 min", async () => {
    const { queue, next } = controlled();
    queue.add(key("a"));
    for (const [failures, delay] of [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].entries()) {
      const run = await next();
      expect(run?.failures).toBe(failures);
      await end(run, { retry: true });
      await vi.advanceTimersByTimeAsync(delay * 1000 - 1);
      expect(await next()).toBeUndefined();
      await vi.advanceTimersByTimeAsync(1);
    }
  });

  test("retries urgent work after 250 ms … 30 s", async () => {
    const { queue, next } = controlled();
    queue.add(key("a"), true);
    for (const delay of [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]) {
      await end(await next(), { retry: true, urgent: true });
      await vi.advanceTimersByTimeAsync(delay - 1);
      expect(await next()).toBeUndefined();
      await vi.advanceTimersByTimeAsync(1);
    }
  });

  test("spreads retries over the second half of the delay", async () => {
    const { queue, next } = controlled(1, () => 0);
    queue.add(key("a"));
    await end(await next(), { retry: true });
    await vi.advanceTimersByTimeAsync(499);
    expect(await next()).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    expect(await next()).toBeDefined();
  });

  test("waits for `notBeforeMs` if that is longer than the delay", async () => {
    const { queue, next } = controlled();
    queue.add(key("a"));
    await end(await next(), { retry: true, notBeforeMs: 20_000 });
    await vi.advanceTimersByTimeAsync(19_999);
    expect(await next()).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    expect(await next()).toBeDefined();
  });

  test.each([0, 200])("waits for the delay if `notBeforeMs` is only %d", async (notBeforeMs) => {
    const { queue, next } = controlled();
    queue.add(key("a"));
    await end(await next(), { retry: true, notBeforeMs });
    await vi.advanceTimersByTimeAsync(499);
    expect(await next()).toBeUndefined();
    await vi.advanceTimersByTimeAsync(501);
    expect(await next()).toBeDefined();
  });

  test("resets the failure count after a success, and after `forget`", async () => {
    const { queue, next } = controlled();
    queue.add(key("a"));
    await end(await next(), { retry: true });
    queue.add(key("a"));
    const second = await next();
    expect(second?.failures).toBe(1);
    await end(second);
    queue.add(key("a"));
    const again = await next();
    expect(again?.failures).toBe(0);
    await end(again, { retry: true });
    queue.forget(key("a"));
    queue.add(key("a"));
    expect((await next())?.failures).toBe(0);
  });

  test("reports a run that rejects, and retries the key", async () => {
    const { queue, next, errors } = controlled();
    queue.add(key("a"));
    const fault = new Error("disk full");
    (await next())?.fail(fault);
    await vi.advanceTimersByTimeAsync(1000);
    expect(errors).toEqual([fault]);
    expect((await next())?.failures).toBe(1);
  });

  test("stops after the current runs have finished, and starts no further runs", async () => {
    const { queue, next } = controlled();
    queue.add(key("a"));
    const run = await next();
    queue.add(key("a"));
    let stopped = false;
    const stopping = queue.stop().then(() => (stopped = true));
    queue.add(key("b"));
    await vi.advanceTimersByTimeAsync(0);
    expect(stopped).toBe(false);
    await end(run, { retry: true });
    await stopping;
    await vi.advanceTimersByTimeAsync(600_000);
    expect(await next()).toBeUndefined();
  });

  test("never runs a key twice at the same time, and never loses an addition, in random sequences", async () => {
    const step: fc.Arbitrary<Step> = fc.oneof(
      fc.record({ add: fc.constantFrom("a", "b", "c", "d"), urgent: fc.boolean() }),
      fc.record({ end: fc.nat(10), visit: fc.constantFrom<Visit>({}, { afterMs: 10 }, { retry: true }) }),
      fc.record({ pass: fc.integer({ min: 1, max: 5000 }) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const owed = new Set<string>();
        const open = new Map<string, (visit: Visit) => void>();
        const queue: Queue = createQueue({
          workers: 2,
          onError: () => undefined,
          run: (each) =>
            new Promise((resolve) => {
              const id = keyText(each);
              expect(open.has(id)).toBe(false);
              owed.delete(id);
              open.set(id, resolve);
            }),
        });
        const endOne = async (index: number, visit: Visit) => {
          const [id, resolve] = [...open][index % Math.max(open.size, 1)] ?? [];
          if (id === undefined || resolve === undefined) return;
          open.delete(id);
          resolve(visit);
          await vi.advanceTimersByTimeAsync(0);
        };
        const take = async (each: Step) => {
          if ("end" in each) return endOne(each.end, each.visit);
          if ("pass" in each) return vi.advanceTimersByTimeAsync(each.pass);
          owed.add(keyText(key(each.add)));
          return queue.add(key(each.add), each.urgent);
        };
        for (const each of steps) await take(each);
        for (let rounds = 0; rounds < 20; rounds += 1) await endOne(0, {});
        expect(owed).toEqual(new Set());
        const stopping = queue.stop();
        while (open.size > 0) await endOne(0, {});
        await stopping;
      }),
      { numRuns: 200 },
    );
  });
});
