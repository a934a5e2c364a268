import { monitorEventLoopDelay } from "node:perf_hooks";
import { setImmediate as immediate } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { createLiveness, type Liveness } from "../../../src/operator/cluster/run_in_cluster.ts";

const MINUTE = 60_000;
const watch = (silentMs: number, isSynced = true) => ({
  resource: "platforms",
  isSynced,
  activeAt: performance.now() - silentMs,
  lists: 1,
  failures: 0,
});

describe("the liveness check of an operator in a cluster", () => {
  let liveness: Liveness;
  afterEach(() => liveness.stop());

  function begin(silentMs: number, { isSynced = true, answers = true } = {}): boolean {
    liveness = createLiveness(() => [watch(0), watch(silentMs, isSynced)]);
    if (answers) liveness.answered();
    return liveness.isAlive();
  }

  test("passes while its watches receive events", () => expect(begin(10 * MINUTE - 1_000)).toBe(true));
  test("fails if a watch is silent for 10 minutes although the cluster answers other calls", () =>
    expect(begin(10 * MINUTE + 1_000)).toBe(false));
  test("passes if the cluster answers no calls at all", () =>
    expect(begin(11 * MINUTE, { answers: false })).toBe(true));
  test("passes while the first lists are incomplete", () =>
    expect(begin(11 * MINUTE, { isSynced: false })).toBe(true));

  test("passes again if the cluster has answered no call for a minute", () => {
    vi.useFakeTimers();
    try {
      expect(begin(11 * MINUTE)).toBe(false);
      vi.advanceTimersByTime(MINUTE - 1);
      expect(liveness.isAlive()).toBe(false);
      vi.advanceTimersByTime(1);
      expect(liveness.isAlive()).toBe(true);
    } finally {
      vi.useRealTimers();
    }
  });

  test("fails while the event loop lags by 5 s on average, and passes again afterwards", () => {
    const delay = {
      mean: Number.NaN,
      enable: () => true,
      disable: () => true,
      reset: () => {
        delay.mean = Number.NaN;
      },
    };
    liveness = createLiveness(() => [], undefined, delay);
    expect(liveness.isAlive()).toBe(true);
    delay.mean = 4.9e9;
    expect(liveness.isAlive()).toBe(true);
    delay.mean = 5.1e9;
    expect(liveness.isAlive()).toBe(false);
    expect(liveness.isAlive()).toBe(true);
  });

  test("fails after the event loop was blocked", async () => {
    const delay = monitorEventLoopDelay({ resolution: 100 });
    // The mean lag of an idle event loop equals the resolution, 100 ms.
    liveness = createLiveness(() => [], { silentMs: MINUTE, answeredMs: MINUTE, lagMs: 400 }, delay);
    await vi.waitFor(() => expect(delay.count).toBeGreaterThan(0), 10_000);
    const end = performance.now() + 2_000;
    while (performance.now() < end);
    // Timers run between two immediates. So the measurement already includes the delay at this point.
    await immediate();
    await immediate();
    expect(liveness.isAlive()).toBe(false);
  });
});
