import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { ClusterError } from "../../../src/kubernetes/cluster_error.ts";
import { createLog } from "../../../src/log.ts";
import { createClusterLease, createLeaseElector } from "../../../src/operator/cluster/lease_election.ts";
import type { Lead } from "../../../src/operator/leader_terms.ts";
import { until } from "../../support/process.ts";

type Spec = { holderIdentity?: string; leaseTransitions?: number; renewTime?: string };
type Sent = { metadata: { resourceVersion?: string }; spec: Spec };

/** Creates a fake cluster with one lease. A write with an outdated version is a conflict. */
function fakeCluster() {
  const state = {
    spec: undefined as Spec | undefined,
    version: 0,
    failure: undefined as ClusterError | undefined,
    /** Called once between a read and the next write. */
    meanwhile: undefined as (() => void) | undefined,
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

const TIMES = { renewMs: 800, retryMs: 20 };

describe("a lease in the cluster", () => {
  let cluster: ReturnType<typeof fakeCluster>;
  let leads: Lead[];
  let stopping: AbortController;

  beforeEach(() => {
    cluster = fakeCluster();
    leads = [];
    stopping = new AbortController();
  });

  afterEach(async () => {
    stopping.abort();
    cluster.failure = undefined;
    await Promise.all(leads.map((lead) => lead.release()));
  });

  const leaseOf = (holder: string) =>
    createClusterLease({ client: cluster, namespace: "system", name: "lease", holder, clock: systemClock });
  const electorOf = (holder: string) =>
    createLeaseElector({ lease: leaseOf(holder), log: createLog("silent", "test"), times: TIMES });
  async function acquire(holder: string): Promise<Lead> {
    const lead = await electorOf(holder).acquire(stopping.signal);
    if (lead === undefined) throw new Error("it was stopped");
    leads.push(lead);
    return lead;
  }

  test("can be acquired, renewed and released", async () => {
    const lead = await acquire("a");
    expect(cluster.spec).toMatchObject({ holderIdentity: "a", leaseTransitions: 1 });
    const version = cluster.version;
    await until("it is renewed", () => cluster.version > version);
    expect(cluster.spec).toMatchObject({ holderIdentity: "a", leaseTransitions: 1 });
    expect(cluster.spec?.renewTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    expect(lead.isHeld()).toBe(true);
    await lead.release();
    expect(cluster.spec?.holderIdentity).toBe("");
    await acquire("b");
    expect(cluster.spec).toMatchObject({ holderIdentity: "b", leaseTransitions: 2 });
  });

  test("cannot be acquired while its holder may still renew it, even if its recorded renewal time is old", async () => {
    cluster.put({ holderIdentity: "a", renewTime: "2001-01-01T00:00:00.000000Z" });
    expect(await leaseOf("b").hold()).toBe("taken");
  });

  test("ends the leadership immediately when another process takes it, and keeps the new holder", async () => {
    const lead = await acquire("a");
    cluster.put({ holderIdentity: "b" });
    await until("it is lost", () => lead.lost.aborted);
    expect(lead.isHeld()).toBe(false);
    await lead.release();
    expect(cluster.spec?.holderIdentity).toBe("b");
  });

  test("ends the leadership when it cannot be renewed in time, not earlier", async () => {
    const lead = await acquire("a");
    cluster.failure = new ClusterError({ verb: "get", resource: "leases", reason: "ECONNREFUSED" });
    await new Promise((resolve) => setTimeout(resolve, TIMES.renewMs / 2));
    expect(lead.isHeld()).toBe(true);
    cluster.failure = undefined;
    await new Promise((resolve) => setTimeout(resolve, TIMES.renewMs));
    expect(lead.isHeld()).toBe(true);
    cluster.failure = new ClusterError({ verb: "get", resource: "leases", reason: "ECONNREFUSED" });
    await until("it is lost", () => lead.lost.aborted);
    expect(lead.isHeld()).toBe(false);
  });

  test("stays with its holder when somebody deletes or changes it", async () => {
    const lead = await acquire("a");
    cluster.put(undefined);
    await until("it exists again", () => cluster.spec?.holderIdentity === "a");
    cluster.meanwhile = () => cluster.put({ ...cluster.spec, leaseTransitions: 40 });
    await until("somebody wrote", () => cluster.spec?.leaseTransitions === 40);
    const version = cluster.version;
    await until("it is renewed", () => cluster.version > version);
    expect(lead.isHeld()).toBe(true);
  });

  test("has one winner if two processes try to acquire it at the same time", async () => {
    cluster.meanwhile = () => cluster.put({ holderIdentity: "b" });
    expect(await leaseOf("a").hold()).toBe("contended");
    expect(await leaseOf("a").hold()).toBe("taken");
  });

  test("cannot be acquired by a process that has aborted its wait", async () => {
    cluster.put({ holderIdentity: "a" });
    const waiting = electorOf("b").acquire(stopping.signal);
    stopping.abort();
    expect(await waiting).toBeUndefined();
  });
});
