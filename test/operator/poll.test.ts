import { Registry } from "prom-client";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createLog } from "../../src/log.ts";
import { type AnyObject, type Kind, keyText } from "../../src/operator/kinds.ts";
import { type Poll, startPoll } from "../../src/operator/poll.ts";
import type { Reason } from "../../src/operator/reconcile/ready_reasons.ts";
import type { StateAnswer } from "../../src/operator_calls.ts";
import { agreeing } from "../support/clock.ts";
import { operatorMetrics } from "../support/operator_metrics.ts";
import { aDelegation, anAgent, anApproval, aPlatform, aState, truth } from "./objects.ts";

const named = (name: string, reason: Reason): AnyObject =>
  aDelegation({
    metadata: { name, uid: name },
    status: { requestID: "req-1", conditions: [truth("Ready", { status: "False", reason })] },
  });

const unfiled = (reason: Reason): AnyObject =>
  aDelegation({
    metadata: { name: "a", uid: "a" },
    status: { conditions: [truth("Ready", { status: "False", reason })] },
  });

describe("the operator's poll", () => {
  let objects: AnyObject[];
  let delegations: StateAnswer["delegations"];
  let away: boolean;
  let isSelected: boolean;
  let asked: string[][];
  let askedAt: number[];
  /** When the poll asked without naming an object. */
  let askedOnlyTimeAt: number[];
  let enqueued: string[];
  let poll: Poll;
  let registry: Registry;
  let random: number;

  const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
  const drifts = async () => {
    const { values = [] } = (await registry.getSingleMetric("deputize_operator_drift_total")?.get()) ?? {};
    return Object.fromEntries(values.map(({ labels, value }) => [labels.kind, value]));
  };

  beforeEach(() => {
    vi.useFakeTimers();
    objects = [];
    delegations = {};
    away = false;
    isSelected = true;
    asked = [];
    askedAt = [];
    askedOnlyTimeAt = [];
    enqueued = [];
    random = 0.5;
    start();
  });

  function start(): void {
    registry = new Registry();
    poll = startPoll(
      {
        resources: {
          list: (kind: Kind) => objects.filter((object) => object.kind === kind),
          serves: () => isSelected,
        } as never,
        api: {
          readState: async (ids: string[]) => {
            if (ids.length > 0) asked.push(ids);
            (ids.length > 0 ? askedAt : askedOnlyTimeAt).push(Date.now());
            if (away) return { failure: { kind: "unavailable", message: "away" } };
            return { value: { platforms: {}, agents: {}, delegations } };
          },
        } as never,
        clock: agreeing(),
        log: createLog("silent", "test"),
        metrics: operatorMetrics(registry),
        externalIdOf: ({ metadata }) => metadata.uid,
      },
      {
        enqueue: (key, urgent) => enqueued.push(`${keyText(key)}${urgent ? "!" : ""}`),
        random: () => random,
      },
    );
  }
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

  test("reads no state of an object whose namespace the operator does not serve, unless it is being deleted", async () => {
    isSelected = false;
    const leaving = named("b", "AwaitingApproval");
    const metadata = { ...leaving.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" };
    objects = [named("a", "AwaitingApproval"), { ...leaving, metadata } as AnyObject];
    delegations = { a: aState(), b: aState() };
    await vi.advanceTimersByTimeAsync(1000);
    expect(asked).toEqual([["b"]]);
    await vi.advanceTimersByTimeAsync(900_000);
    expect(new Set(asked.flat())).toEqual(new Set(["b"]));
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

  test.each<Reason>(["ApiUnavailable", "AuthorizationFailed"])(
    "asks after 2, 4, 8, 15 … s during an outage, and then immediately retries objects that are %s",
    async (reason) => {
      objects = [unfiled(reason)];
      away = true;
      const begun = Date.now();
      await pass(60_000);
      expect(askedAt.map((at) => (at - begun) / 1_000)).toEqual([1, 3, 7, 15, 30, 45, 60]);
      expect(enqueued).toEqual([]);
      away = false;
      await pass(15_000);
      expect(enqueued).toEqual(["Delegation/default/a"]);
      await pass(14_000);
      expect(enqueued).toHaveLength(1);
      await pass(1_000);
      expect(enqueued).toHaveLength(2);
    },
  );

  test("retries objects again as soon as a second outage ends, however soon after the first one", async () => {
    objects = [unfiled("ApiUnavailable")];
    await pass(1_000);
    expect(enqueued).toHaveLength(1);
    away = true;
    await pass(1_000);
    away = false;
    await pass(2_000);
    expect(enqueued).toHaveLength(2);
  });

  test("does not retry every second if calls fail although the API answers", async () => {
    objects = [unfiled("ApiUnavailable")];
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

  test("finds differences that nobody announced, and counts them but no awaited decision", async () => {
    const issued = {
      certID: "cert-1",
      requestID: "req-1",
      conditions: [truth("Ready", { reason: "Active" })],
    };
    objects = [
      named("a", "AwaitingApproval"),
      aDelegation({ metadata: { name: "b", uid: "b" }, status: issued }),
      anAgent({ metadata: { name: "gone", uid: "c" } }),
      aPlatform({ metadata: { name: "gone", uid: "d" } }),
    ];
    delegations = { a: anApproval(), b: anApproval({ status: "revoked" }) };
    await pass(1_000);
    expect(await drifts()).toEqual({});
    objects.shift();
    enqueued = [];
    await pass(600_000);
    expect(enqueued).toEqual(["Platform/default/gone", "Agent/default/gone", "Delegation/default/b"]);
    expect(await drifts()).toEqual({ Platform: 1, Agent: 1, Delegation: 1 });
  });

  test("compares all objects again after a comparison that failed", async () => {
    objects = [named("a", "Denied")];
    delegations = { a: aState({ status: "expired" }) };
    away = true;
    await pass(601_000);
    expect([asked.length, enqueued]).toEqual([1, []]);
    away = false;
    await pass(600_000);
    expect(enqueued).toEqual(["Delegation/default/a"]);
  });

  test.each([
    [0, 480_000],
    [1, 720_000],
  ])("compares all objects after 8 to 12 minutes (random %d)", async (given, ms) => {
    poll.stop();
    random = given;
    start();
    objects = [named("a", "Denied")];
    await pass(ms - 1);
    expect(asked).toEqual([]);
    await pass(1);
    expect(asked).toEqual([["a"]]);
  });

  test("asks the API for its time immediately and every 15 s while no object waits, and otherwise never", async () => {
    const begun = Date.now();
    await pass(61_500);
    expect(askedOnlyTimeAt.map((at) => (at - begun) / 1_000)).toEqual([1, 16, 31, 46, 61]);
    objects = [named("a", "AwaitingApproval")];
    await pass(60_000);
    expect(askedOnlyTimeAt).toHaveLength(5);
    expect(askedAt).toHaveLength(60);
  });

  test("asks the API for its time after 2, 4, 8, 15 … s during an outage", async () => {
    away = true;
    const begun = Date.now();
    await pass(45_000);
    expect(askedOnlyTimeAt.map((at) => (at - begun) / 1_000)).toEqual([1, 3, 7, 15, 30, 45]);
  });

  test("makes no calls after it is stopped", async () => {
    objects = [named("a", "AwaitingApproval")];
    poll.stop();
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect([asked, askedOnlyTimeAt]).toEqual([[], []]);
  });
});
