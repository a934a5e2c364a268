import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { createLog } from "../../src/log.ts";
import {
  type Elector,
  type Leadership,
  type LeadershipEvent,
  startLeadership,
} from "../../src/operator/leader_terms.ts";
import { operatorMetrics } from "../support/operator_metrics.ts";
import { until } from "../support/process.ts";

/** The recorded events of a test in order, and functions that cause events. */
type Stage = {
  seen: string[];
  events: LeadershipEvent[];
  lose(): void;
  supersede(): void;
  finish(): void;
};

describe("the leadership of a process", () => {
  let stage: Stage;
  let leadership: Leadership;

  beforeEach(() => {
    stage = {
      seen: [],
      events: [],
      lose: () => undefined,
      supersede: () => undefined,
      finish: () => undefined,
    };
  });

  afterEach(async () => {
    stage.finish();
    await leadership.stop();
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

  function start({ slowly = false, wait = 1 } = {}): void {
    leadership = startLeadership({
      elector,
      metrics: operatorMetrics(),
      begin() {
        stage.seen.push("begin");
        const superseded = Promise.withResolvers<void>();
        const ended = Promise.withResolvers<void>();
        stage.supersede = superseded.resolve;
        stage.finish = ended.resolve;
        if (!slowly) ended.resolve();
        return {
          superseded: superseded.promise,
          firstPass: Promise.resolve(),
          async stop() {
            stage.seen.push("stop");
            await ended.promise;
            stage.seen.push("stopped");
          },
        };
      },
      announce: (event) => void stage.events.push(event),
      clock: systemClock,
      log: createLog("silent", "test"),
      retryMs: { base: wait, cap: wait * 8 },
    });
  }

  const begun = (count = 1) =>
    until("it leads", () => stage.seen.filter((each) => each === "begin").length === count);

  test("starts the work when the process leads, and ends it before another process may lead", async () => {
    start();
    await begun();
    expect(leadership.isLeading()).toBe(true);
    await leadership.stop();
    expect(stage.seen).toEqual(["acquire", "begin", "stop", "stopped", "release"]);
    expect(leadership.isLeading()).toBe(false);
  });

  test.each([
    ["lost the lease", "LeaseLost", () => stage.lose()],
    ["was superseded", "Superseded", () => stage.supersede()],
  ])("starts again after the process %s, and an event records the loss", async (_, reason, fail) => {
    start();
    await begun();
    fail();
    await begun(2);
    expect(stage.seen).toEqual(["acquire", "begin", "stop", "stopped", "release", "acquire", "begin"]);
    expect(stage.events.map((event) => [event.type, event.reason])).toEqual([
      ["Normal", "Leading"],
      ["Warning", reason],
      ["Normal", "Leading"],
    ]);
  });

  test("ends as soon as the process starts to stop its work", async () => {
    start({ slowly: true });
    await begun();
    stage.supersede();
    await until("it stops", () => stage.seen.includes("stop"));
    expect(leadership.isLeading()).toBe(false);
    expect(stage.seen).not.toContain("release");
    stage.finish();
    await begun(2);
  });

  test("starts again after longer and longer waits if the process is superseded repeatedly", async () => {
    start({ wait: 40 });
    const times: number[] = [];
    for (let count = 1; count <= 4; count += 1) {
      await begun(count);
      times.push(performance.now());
      stage.supersede();
    }
    const gaps = times.slice(1).map((time, n) => time - (times[n] ?? 0));
    expect(gaps[1]).toBeGreaterThan(75);
    expect(gaps[2]).toBeGreaterThan(155);
  });

  test("does not start again if the process stops while it waits to lead again", async () => {
    start({ wait: 60_000 });
    await begun();
    stage.supersede();
    await until("it let go", () => stage.seen.includes("release"));
    await leadership.stop();
    expect(stage.seen.filter((each) => each === "acquire")).toHaveLength(1);
  });
});
