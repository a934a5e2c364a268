import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { createLog } from "../../src/log.ts";
import { type AnyObject, type Kind, keyText } from "../../src/operator/kinds.ts";
import { type Poll, startPoll } from "../../src/operator/poll.ts";
import type { Reason } from "../../src/operator/reconcile/ready_reasons.ts";
import type { StateAnswer } from "../../src/operator_calls.ts";
import { operatorMetrics } from "../support/operator_metrics.ts";
import { aDelegation, anApproval, aPlatform, aState, truth } from "./objects.ts";

const named = (name: string, reason: Reason): AnyObject =>
  aDelegation({
    metadata: { name, uid: name },
    status: { requestID: "req-1", conditions: [truth("Ready", { status: "False", reason })] },
  });

describe("the operator's poll", () => {
  let objects: AnyObject[];
  let delegations: StateAnswer["delegations"];
  let away: boolean;
  let asked: string[][];
  let enqueued: string[];
  let poll: Poll;

  beforeEach(() => {
    vi.useFakeTimers();
    objects = [];
    delegations = {};
    away = false;
    asked = [];
    enqueued = [];
    poll = startPoll(
      {
        resources: { list: (kind: Kind) => objects.filter((object) => object.kind === kind) } as never,
        api: {
          readState: async (ids: string[]) => {
            asked.push(ids);
            if (away) return { failure: { kind: "unavailable", message: "away" } };
            return { value: { platforms: {}, agents: {}, delegations } };
          },
        } as never,
        clock: systemClock,
        log: createLog("silent", "test"),
        metrics: operatorMetrics(),
        externalIdOf: ({ metadata }) => metadata.uid,
      },
      { enqueue: (key, urgent) => enqueued.push(`${keyText(key)}${urgent ? "!" : ""}`), random: () => 0.5 },
    );
  });
  afterEach(() => {
    poll.stop();
    vi.useRealTimers();
  });

  test("reads every state once in ten minutes, and no state more often while no object waits", async () => {
    objects = [named("a", "Denied")];
    delegations = { a: aState({ status: "denied" }) };
    await vi.advanceTimersByTimeAsync(599_000);
    expect(asked).toEqual([]);
    await vi.advanceTimersByTimeAsync(2000);
    expect(asked).toEqual([["a"]]);
    expect(enqueued).toEqual([]);
  });

  test("reads the state of undecided objects every second, and enqueues decided objects urgently", async () => {
    objects = [named("a", "AwaitingApproval"), named("b", "AwaitingApproval"), named("c", "Denied")];
    delegations = { a: aState(), b: aState() };
    await vi.advanceTimersByTimeAsync(3000);
    expect(asked).toEqual([
      ["a", "b"],
      ["a", "b"],
      ["a", "b"],
    ]);
    expect(enqueued).toEqual([]);
    delegations = { a: anApproval(), b: aState() };
    await vi.advanceTimersByTimeAsync(1000);
    expect(enqueued).toEqual(["Delegation/default/a!"]);
  });

  test("reads waiting objects in turn if one round cannot read them all", async () => {
    objects = Array.from({ length: 2500 }, (_, index) => named(`n${index}`, "AwaitingApproval"));
    delegations = Object.fromEntries(objects.map(({ metadata }) => [metadata.uid, aState()]));
    await vi.advanceTimersByTimeAsync(2000);
    expect(asked.map((ids) => ids.length)).toEqual([500, 500, 500, 500, 500, 500, 500, 500]);
    expect(new Set(asked.flat()).size).toBe(2500);
  });

  test("slows down while the API is unavailable, and retries every object once the API is back", async () => {
    objects = [named("a", "ApiUnavailable")];
    delegations = { a: aState() };
    away = true;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked.length).toBeLessThan(9);
    expect(enqueued).toEqual([]);
    away = false;
    await vi.advanceTimersByTimeAsync(15_000);
    expect(enqueued).toEqual(["Delegation/default/a"]);
  });

  test("does not retry every second if calls fail although the API answers", async () => {
    const unfiled = aDelegation({
      metadata: { name: "a", uid: "a" },
      status: { conditions: [truth("Ready", { status: "False", reason: "ApiUnavailable" })] },
    });
    objects = [unfiled];
    await vi.advanceTimersByTimeAsync(60_000);
    expect(enqueued.length).toBeGreaterThanOrEqual(3);
    expect(enqueued.length).toBeLessThanOrEqual(5);
  });

  test("enqueues, every ten minutes, the objects that may wait for something other than the API", async () => {
    objects = [
      aPlatform({
        metadata: { name: "bound" },
        status: { conditions: [truth("Ready", { status: "False", reason: "PlatformLimit" })] },
      }),
      named("denied", "Denied"),
    ];
    delegations = { denied: aState({ status: "denied" }) };
    await vi.advanceTimersByTimeAsync(601_000);
    expect(enqueued).toEqual(["Platform/default/bound"]);
  });

  test("makes no calls after it is stopped", async () => {
    objects = [named("a", "AwaitingApproval")];
    poll.stop();
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(asked).toEqual([]);
  });
});
