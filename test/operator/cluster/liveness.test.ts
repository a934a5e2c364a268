import { monitorEventLoopDelay } from "node:perf_hooks";
import { setImmediate as immediate } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { createLiveness, type Liveness } from "../../../src/operator/cluster/run_in_cluster.ts";

const LIMITS = { silentMs: 1_000, answeredMs: 1_000, lagMs: 100 };
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
    liveness = createLiveness(() => [watch(0), watch(silentMs, isSynced)], LIMITS);
    if (answers) liveness.answered();
    return liveness.isAlive();
  }

  test("passes while its watches receive events", () => expect(begin(500)).toBe(true));
  test("fails if a watch is silent although the cluster answers other calls", () =>
    expect(begin(1_500)).toBe(false));
  test("passes if the cluster answers no calls at all", () =>
    expect(begin(1_500, { answers: false })).toBe(true));
  test("passes while the first lists are incomplete", () =>
    expect(begin(1_500, { isSynced: false })).toBe(true));

  test("fails while the event loop lags, and passes again afterwards", () => {
    const delay = {
      mean: Number.NaN,
      enable: () => true,
      disable: () => true,
      reset: () => {
        delay.mean = Number.NaN;
      },
    };
    liveness = createLiveness(() => [], LIMITS, delay);
    expect(liveness.isAlive()).toBe(true);
    delay.mean = 99e6;
    expect(liveness.isAlive()).toBe(true);
    delay.mean = 101e6;
    expect(liveness.isAlive()).toBe(false);
    expect(liveness.isAlive()).toBe(true);
  });

  test("fails after the event loop was blocked", async () => {
    const delay = monitorEventLoopDelay({ resolution: 100 });
    // The mean lag of an idle event loop equals the resolution, 100 ms.
    liveness = createLiveness(() => [], { ...LIMITS, lagMs: 400 }, delay);
    await vi.waitFor(() => expect(delay.count).toBeGreaterThan(0));
    const end = performance.now() + 2_000;
    while (performance.now() < end);
    // Timers run between two immediates. So the measurement already includes the delay at this point.
    await immediate();
    await immediate();
    expect(liveness.isAlive()).toBe(false);
  });
});
