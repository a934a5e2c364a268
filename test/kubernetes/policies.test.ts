import { beforeEach, describe, expect, test } from "vitest";
import { checkPolicies, DEFAULT_OPERATOR, type PolicyReader } from "../../src/kubernetes/policies.ts";
import { createFakeCluster, type FakeCluster } from "../support/fake_cluster.ts";

type Live = {
  metadata: { uid: string; generation: number; creationTimestamp: string; [field: string]: unknown };
  spec: Record<string, unknown>;
};
type Write = { time?: string; subresource?: string; fieldsV1: Record<string, object> };

const CREATED = "2026-01-01T00:00:00Z";
const CHANGED = "2026-02-01T00:00:00Z";
const ENFORCED_AFTER = (time: string) => new Date(Date.parse(time) + 10_000);
const SPEC = { "f:spec": {} };

describe("the check of a cluster's policies in a fake cluster", () => {
  let cluster: FakeCluster;
  let change: (live: Live) => void;

  beforeEach(() => {
    cluster = createFakeCluster();
    cluster.policiesSince = CREATED;
    change = () => undefined;
  });

  /** Reads the policies with fixed uids. The test changes one policy. */
  const reader: PolicyReader = {
    custom: {
      async getClusterCustomObject(place) {
        const live = structuredClone(
          await cluster.get("c1")?.client.custom.getClusterCustomObject(place),
        ) as Live;
        live.metadata.uid = `${place.plural} ${place.name}`;
        if (live.metadata.uid === "validatingadmissionpolicies deputize-approval") change(live);
        return live;
      },
    },
  };
  const check = (operator = DEFAULT_OPERATOR) => checkPolicies(reader, { operator });

  const rewritten = (...managedFields: Write[]) => {
    change = ({ metadata }) => Object.assign(metadata, { generation: 2, managedFields });
  };

  test("accepts the policies of this version ten seconds after their creation", async () => {
    expect(await check()).toMatchObject({ since: ENFORCED_AFTER(CREATED) });
  });

  test.each<[string, (live: Live) => void, string]>([
    ["is being deleted", ({ metadata }) => (metadata.deletionTimestamp = CHANGED), "is being deleted"],
    ["has another spec", ({ spec }) => (spec.failurePolicy = "Ignore"), "differs from crds/policies.yaml"],
    ["has more in its spec", ({ spec }) => (spec.variables = []), "differs from crds/policies.yaml"],
    ["does not record its change", ({ metadata }) => (metadata.generation = 2), "does not record"],
  ])("reports a policy that %s", async (_, given, fault) => {
    change = given;
    expect((await check()).fault).toContain(`ValidatingAdmissionPolicy deputize-approval ${fault}`);
  });

  test("reports a missing policy, and policies for another operator", async () => {
    cluster.missing.add("deputize-approval");
    expect((await check()).fault).toBe("ValidatingAdmissionPolicy deputize-approval is missing");
    cluster.missing.clear();
    expect((await check("system:serviceaccount:other:operator")).fault).toContain("differs");
  });

  test("counts from the last change of a spec, but not of labels or of the status", async () => {
    const label = { time: "2026-04-01T00:00:00Z", fieldsV1: { "f:metadata": {} } };
    const status = { time: "2026-05-01T00:00:00Z", subresource: "status", fieldsV1: SPEC };
    rewritten({ time: CHANGED, fieldsV1: SPEC }, label, status);
    expect((await check()).since).toEqual(ENFORCED_AFTER(CHANGED));
  });

  test("returns the same hash but another revision after a change that was undone", async () => {
    const before = await check();
    rewritten({ time: CHANGED, fieldsV1: SPEC });
    const after = await check();
    expect(after.hash).toBe(before.hash);
    expect(after.revision).not.toBe(before.revision);
  });

  test("rejects if the cluster does not answer", async () => {
    cluster.isAway = true;
    await expect(check()).rejects.toThrow("ECONNREFUSED");
  });
});
