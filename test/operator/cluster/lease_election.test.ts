import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { ClusterError } from "../../../src/kubernetes/cluster_error.ts";
import type { Logger } from "../../../src/log.ts";
import { createClusterLease, createLeaseElector } from "../../../src/operator/cluster/lease_election.ts";
import type { Lead } from "../../../src/operator/leader_terms.ts";
import { logged } from "../../support/logged.ts";

type Spec = {
  holderIdentity?: string;
  leaseTransitions?: number;
  leaseDurationSeconds?: number;
  acquireTime?: string;
  renewTime?: string;
};
type Sent = { metadata: { resourceVersion?: string }; spec: Spec };

/** Creates a fake cluster with one lease. A write with an outdated version is a conflict. */
function fakeCluster() {
  const state = {
    spec: undefined as Spec | undefined,
    version: 0,
    failure: undefined as ClusterError | undefined,
    /** Called once between a read and the next write. */
    meanwhile: undefined as (() => void) | undefined,
    /** How long the response to a write takes. */
    slowMs: 0,
  };
  const error = (status: number) =>
    new ClusterError({ verb: "patch", resource: "leases", status, reason: "Because" });
  async function write({ spec }: Sent, isConflict: () => boolean): Promise<void> {
    if (state.failure !== undefined) throw state.failure;
    state.meanwhile?.();
    state.meanwhile = undefined;
    if (isConflict()) throw error(409);
    state.spec = { ...state.spec, ...spec };
    state.version += 1;
    if (state.slowMs > 0) await new Promise((resolve) => setTimeout(resolve, state.slowMs));
  }
  return Object.assign(state, {
    put(spec: Spec | undefined) {
      state.spec = spec;
      state.version += 1;
    },
    coordination: {
      async readNamespacedLease() {
        if (state.failure !== undefined) throw state.failure;
        if (state.spec === undefined) throw error(404);
        return { metadata: { resourceVersion: String(state.version) }, spec: state.spec } as object;
      },
      async createNamespacedLease({ body }: { body: object }) {
        await write(body as Sent, () => state.spec !== undefined);
        return {};
      },
      async patchNamespacedLease({ body }: { body: Sent }) {
        await write(body, () => body.metadata.resourceVersion !== String(state.version));
        return {};
      },
    },
  });
}

const away = () => new ClusterError({ verb: "get", resource: "leases", reason: "ECONNREFUSED" });

describe("a lease in the cluster", () => {
  let cluster: ReturnType<typeof fakeCluster>;
  let leads: Lead[];
  let stopping: AbortController;
  let log: Logger;
  let lines: string[];

  const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

  beforeEach(() => {
    vi.useFakeTimers();
    cluster = fakeCluster();
    leads = [];
    stopping = new AbortController();
    ({ log, lines } = logged());
  });

  afterEach(async () => {
    stopping.abort();
    Object.assign(cluster, { failure: undefined, slowMs: 0 });
    const released = Promise.all(leads.map((lead) => lead.release()));
    await pass(20_000);
    await released;
    vi.useRealTimers();
  });

  const leaseOf = (holder: string) =>
    createClusterLease({ client: cluster, namespace: "system", name: "lease", holder, clock: systemClock });
  const electorOf = (holder: string) => createLeaseElector({ lease: leaseOf(holder), log });
  async function acquire(holder: string): Promise<Lead> {
    const acquired = electorOf(holder).acquire(stopping.signal);
    await pass(cluster.slowMs);
    const lead = await acquired;
    if (lead === undefined) throw new Error("it was stopped");
    leads.push(lead);
    return lead;
  }

  test("can be acquired, renewed and released", async () => {
    const begun = Date.now();
    const at = (ms: number) => new Date(begun + ms).toISOString().replace("Z", "000Z");
    const lead = await acquire("a");
    const acquired = {
      holderIdentity: "a",
      leaseTransitions: 1,
      leaseDurationSeconds: 15,
      acquireTime: at(0),
    };
    expect(cluster.spec).toEqual({ ...acquired, renewTime: at(0) });
    await pass(2_000);
    expect(cluster.spec).toEqual({ ...acquired, renewTime: at(2_000) });
    await lead.release();
    expect(cluster.spec).toMatchObject({ holderIdentity: "", leaseDurationSeconds: 1 });
    const { version } = cluster;
    await pass(10_000);
    expect(cluster.version).toBe(version);
    await acquire("b");
    expect(cluster.spec).toMatchObject({ holderIdentity: "b", leaseTransitions: 2 });
  });

  test("stays with a process that renews it, for longer than its term", async () => {
    const lead = await acquire("a");
    const other = leaseOf("b");
    for (let seconds = 0; seconds < 60; seconds += 1) {
      expect(await other.hold()).toBe("taken");
      await pass(1_000);
    }
    expect([lead.isHeld(), lead.lost.aborted, cluster.spec?.leaseTransitions]).toEqual([true, false, 1]);
  });

  test("can be acquired 15 s after its last change, whatever time it records", async () => {
    cluster.put({ holderIdentity: "a", renewTime: "2001-01-01T00:00:00.000000Z" });
    const other = leaseOf("b");
    expect(await other.hold()).toBe("taken");
    await pass(14_999);
    expect(await other.hold()).toBe("taken");
    cluster.put({ holderIdentity: "a", renewTime: "2099-01-01T00:00:00.000000Z" });
    expect(await other.hold()).toBe("taken");
    await pass(14_999);
    expect(await other.hold()).toBe("taken");
    await pass(1);
    expect(await other.hold()).toBe("held");
  });

  test("ends the leadership when another process takes it, and keeps the new holder", async () => {
    const lead = await acquire("a");
    cluster.put({ holderIdentity: "b" });
    await pass(2_000);
    expect([lead.isHeld(), lead.lost.aborted]).toEqual([false, true]);
    await lead.release();
    expect(cluster.spec?.holderIdentity).toBe("b");
  });

  test("ends the leadership 10 s after its last renewal, and not earlier", async () => {
    const lead = await acquire("a");
    await pass(4_000);
    cluster.failure = away();
    await pass(9_999);
    expect([lead.isHeld(), lead.lost.aborted]).toEqual([true, false]);
    await pass(1);
    expect([lead.isHeld(), lead.lost.aborted]).toEqual([false, true]);
    expect(new Set(lines)).toEqual(new Set(["warn the lease could not be renewed"]));
  });

  test("continues the leadership when a renewal succeeds after failures", async () => {
    const lead = await acquire("a");
    for (let outages = 0; outages < 10; outages += 1) {
      cluster.failure = away();
      await pass(5_000);
      cluster.failure = undefined;
      await pass(2_000);
      expect([lead.isHeld(), lead.lost.aborted]).toEqual([true, false]);
    }
  });

  test("counts a slow renewal from its beginning, because another process counts from the write", async () => {
    const lead = await acquire("a");
    await pass(1_999);
    cluster.slowMs = 5_000;
    await pass(5_002);
    cluster.failure = away();
    await pass(4_998);
    expect([lead.isHeld(), lead.lost.aborted]).toEqual([true, false]);
    await pass(1);
    expect([lead.isHeld(), lead.lost.aborted]).toEqual([false, true]);
  });

  test("counts a slow acquisition from its beginning", async () => {
    cluster.slowMs = 6_000;
    const lead = await acquire("a");
    cluster.failure = away();
    await pass(3_999);
    expect([lead.isHeld(), lead.lost.aborted]).toEqual([true, false]);
    await pass(1);
    expect([lead.isHeld(), lead.lost.aborted]).toEqual([false, true]);
  });

  test("counts as lost as soon as a paused process wakes up, before any timer runs", async () => {
    const lead = await acquire("a");
    const woken = performance.now() + 10_000;
    const spy = vi.spyOn(performance, "now").mockReturnValue(woken);
    expect(lead.isHeld()).toBe(false);
    spy.mockRestore();
  });

  test("stays with its holder when somebody deletes or changes it", async () => {
    const lead = await acquire("a");
    cluster.put(undefined);
    await pass(2_000);
    expect(cluster.spec?.holderIdentity).toBe("a");
    cluster.meanwhile = () => cluster.put({ ...cluster.spec, leaseTransitions: 40 });
    await pass(2_000);
    expect(cluster.spec?.leaseTransitions).toBe(40);
    const { version } = cluster;
    await pass(2_000);
    expect([cluster.version, lead.isHeld()]).toEqual([version + 1, true]);
  });

  test("has one winner if two processes try to acquire it at the same time", async () => {
    cluster.meanwhile = () => cluster.put({ holderIdentity: "b" });
    expect(await leaseOf("a").hold()).toBe("contended");
    expect(await leaseOf("a").hold()).toBe("taken");
  });

  test("goes to a waiting process after an outage or as soon as its holder releases it", async () => {
    cluster.failure = away();
    let lead: Lead | undefined;
    void electorOf("b")
      .acquire(stopping.signal)
      .then((acquired) => {
        lead = acquired;
        if (acquired !== undefined) leads.push(acquired);
      });
    await pass(60_000);
    expect(lines).toContain("warn the lease could not be acquired");
    Object.assign(cluster, { failure: undefined });
    cluster.put({ holderIdentity: "a" });
    await pass(4_000);
    expect(lead).toBeUndefined();
    cluster.put({ holderIdentity: "" });
    await pass(2_000);
    expect(lead?.isHeld()).toBe(true);
  });

  test("cannot be acquired by a process that has aborted its wait", async () => {
    cluster.put({ holderIdentity: "a" });
    const waiting = electorOf("b").acquire(stopping.signal);
    stopping.abort();
    expect(await waiting).toBeUndefined();
  });
});
