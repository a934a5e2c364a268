import { Registry } from "prom-client";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { systemClock } from "../../src/clock.ts";
import {
  type Elector,
  type Leadership,
  type LeadershipEvent,
  startLeadership,
} from "../../src/operator/leader_terms.ts";
import { logged } from "../support/logged.ts";
import { operatorMetrics } from "../support/operator_metrics.ts";

/** The recorded events of a test in order, and functions that cause events. */
type Stage = {
  seen: string[];
  events: LeadershipEvent[];
  lose(): void;
  supersede(): void;
  finish(): void;
  /** When the last term began, in milliseconds. */
  begunAt: number;
};

describe("the leadership of a process", () => {
  let stage: Stage;
  let leadership: Leadership;
  let registry: Registry;
  let lines: string[];

  const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

  beforeEach(() => {
    vi.useFakeTimers();
    registry = new Registry();
    stage = {
      seen: [],
      events: [],
      lose: () => undefined,
      supersede: () => undefined,
      finish: () => undefined,
      begunAt: 0,
    };
  });

  afterEach(async () => {
    stage.finish();
    await leadership.stop();
    vi.useRealTimers();
  });

  const elector: Elector = {
    async acquire(signal) {
      if (signal.aborted) return undefined;
      stage.seen.push("acquire");
      const lost = new AbortController();
      stage.lose = () => lost.abort();
      return {
        lost: lost.signal,
        isHeld: () => !lost.signal.aborted,
        release: async () => void stage.seen.push("release"),
      };
    },
  };

  async function start({ slowly = false, firstPass = Promise.resolve() } = {}): Promise<void> {
    const { log, lines: written } = logged();
    lines = written;
    leadership = startLeadership({
      elector,
      metrics: operatorMetrics(registry),
      begin() {
        stage.seen.push("begin");
        stage.begunAt = Date.now();
        const superseded = Promise.withResolvers<void>();
        const ended = Promise.withResolvers<void>();
        stage.supersede = superseded.resolve;
        stage.finish = ended.resolve;
        if (!slowly) ended.resolve();
        return {
          superseded: superseded.promise,
          firstPass,
          async stop() {
            stage.seen.push("stop");
            await ended.promise;
            stage.seen.push("stopped");
          },
        };
      },
      announce: (event) => void stage.events.push(event),
      clock: systemClock,
      log,
    });
    await pass(0);
  }

  const terms = () => stage.seen.filter((each) => each === "begin").length;
  async function losses(cause: string): Promise<number | undefined> {
    const { values = [] } =
      (await registry.getSingleMetric("deputize_operator_lead_losses_total")?.get()) ?? {};
    return values.find(({ labels }) => labels.cause === cause)?.value;
  }
  /** Returns the milliseconds until the next term. Timers of other test files do not count. */
  async function supersededFor(): Promise<number> {
    const [from, count] = [Date.now(), terms()];
    stage.supersede();
    for (let seconds = 0; seconds <= 300 && terms() === count; seconds += 1) await pass(1_000);
    return stage.begunAt - from;
  }

  test("starts the work when the process leads, and ends it before another process may lead", async () => {
    await start();
    expect(leadership.isLeading()).toBe(true);
    await leadership.stop();
    expect(stage.seen).toEqual(["acquire", "begin", "stop", "stopped", "release"]);
    expect(leadership.isLeading()).toBe(false);
    expect([await losses("lost"), await losses("superseded")]).toEqual([0, 0]);
  });

  test.each([
    ["lost the lease", "lost", "LeaseLost", () => stage.lose()],
    ["was superseded", "superseded", "Superseded", () => stage.supersede()],
  ])(
    "starts again after the process %s, and event, log and metric record the loss",
    async (_, cause, reason, fail) => {
      await start();
      fail();
      await pass(1_000);
      expect(stage.seen).toEqual(["acquire", "begin", "stop", "stopped", "release", "acquire", "begin"]);
      expect(stage.events.map((event) => [event.type, event.reason])).toEqual([
        ["Normal", "Leading"],
        ["Warning", reason],
        ["Normal", "Leading"],
      ]);
      expect(lines[1]).toBe(`warn ${stage.events[1]?.message}`);
      expect([await losses("lost"), await losses("superseded")]).toEqual(cause === "lost" ? [1, 0] : [0, 1]);
    },
  );

  test("ends as soon as the process starts to stop its work", async () => {
    await start({ slowly: true });
    stage.supersede();
    await pass(0);
    expect(stage.seen.at(-1)).toBe("stop");
    expect(leadership.isLeading()).toBe(false);
    await pass(60_000);
    expect(stage.seen).not.toContain("release");
    stage.finish();
    await pass(1_000);
    expect(terms()).toBe(2);
  });

  test("starts again after 1 s, 2 s, 4 s … 5 min if the process is superseded repeatedly", async () => {
    await start();
    const waits: number[] = [];
    for (let count = 0; count < 11; count += 1) waits.push((await supersededFor()) / 1_000);
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
  });

  test.each([
    ["4 s if the process led for less than 10 min", 599_999, 4_000],
    ["1 s if the process led for 10 min", 600_000, 1_000],
  ])("starts again, the third time, after %s", async (_, ms, wait) => {
    await start();
    await supersededFor();
    await supersededFor();
    await pass(ms);
    expect(await supersededFor()).toBe(wait);
  });

  test("reports the first pass over all objects in every later term", async () => {
    const firstPass = Promise.withResolvers<void>();
    await start({ firstPass: firstPass.promise });
    expect(leadership.hasReconciledAll()).toBe(false);
    firstPass.resolve();
    await pass(0);
    stage.lose();
    await pass(0);
    expect([terms(), leadership.hasReconciledAll()]).toEqual([2, true]);
  });

  test("does not start again if the process stops while it waits to lead again", async () => {
    await start();
    stage.supersede();
    await pass(0);
    expect(stage.seen.at(-1)).toBe("release");
    await leadership.stop();
    expect(stage.seen.filter((each) => each === "acquire")).toHaveLength(1);
  });
});
