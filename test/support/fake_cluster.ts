import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import type { TrustedClusters } from "../../src/clusters/trusted_clusters.ts";
import type { ClusterCall } from "../../src/kubernetes/client.ts";
import { ClusterError } from "../../src/kubernetes/cluster_error.ts";
import { DEFAULT_OPERATOR } from "../../src/kubernetes/policies.ts";

const POLICIES = join(import.meta.dirname, "../../crds/policies.yaml");
const LONG_AGO = "2025-01-01T00:00:00Z";

type Policy = { metadata: { name: string }; kind: string; spec: Record<string, unknown> };
/** A Delegation in the fake cluster, as its API server gives it. */
export type FakeObject = {
  metadata: { uid: string; generation: number; creationTimestamp: string; deletionTimestamp?: string };
  spec: Record<string, unknown>;
  status?: { approval?: Record<string, unknown> };
};

/** Clusters as the API reads them: objects and policies in memory, the same for every cluster id. */
export type FakeCluster = TrustedClusters & {
  /** Delegations by `<namespace>/<name>`. */
  delegations: Map<string, FakeObject>;
  /** Names of policies that are not there. */
  missing: Set<string>;
  /** When the policies were created. */
  policiesSince: string;
  /** Whether calls fail, or those about policies alone. */
  isAway: boolean | "policies";
};

/** Makes one; policies are in place. */
export function createFakeCluster(): FakeCluster {
  const policies = readPolicies();
  const fake: FakeCluster = {
    delegations: new Map(),
    missing: new Set(),
    policiesSince: LONG_AGO,
    isAway: false,
    get: () => ({ operator: DEFAULT_OPERATOR, client }),
    close: async () => undefined,
  };

  async function call({ verb, resource, path }: ClusterCall): Promise<unknown> {
    const isAway = fake.isAway === "policies" ? resource !== "delegations" : fake.isAway;
    if (isAway) throw new ClusterError({ verb, resource, reason: "ECONNREFUSED" });
    const [, , , , , namespace, , name] = path.split("/");
    const found =
      resource === "delegations"
        ? fake.delegations.get(`${namespace}/${name}`)
        : await policyAt(path.split("/").at(-1) ?? "", resource);
    if (found === undefined) throw new ClusterError({ verb, resource, status: 404, reason: "NotFound" });
    return found;
  }

  async function policyAt(name: string, resource: string): Promise<object | undefined> {
    const kind = resource.endsWith("bindings")
      ? "ValidatingAdmissionPolicyBinding"
      : "ValidatingAdmissionPolicy";
    const policy = (await policies).find((each) => each.metadata.name === name && each.kind === kind);
    if (policy === undefined || fake.missing.has(name)) return undefined;
    const metadata = { uid: randomUUID(), generation: 1, creationTimestamp: fake.policiesSince };
    return { metadata, spec: policy.spec };
  }

  const client = { call, async *watch() {}, close: async () => undefined };
  return fake;
}

async function readPolicies(): Promise<Policy[]> {
  return parseAllDocuments(await readFile(POLICIES, "utf8")).map((document) => {
    const policy = document.toJS() as Policy;
    const { matchConstraints } = policy.spec as { matchConstraints?: { resourceRules: object[] } };
    if (matchConstraints === undefined) return policy;
    const resourceRules = matchConstraints.resourceRules.map((rule) => ({ ...rule, scope: "*" }));
    const given = { matchPolicy: "Equivalent", namespaceSelector: {}, objectSelector: {} };
    return { ...policy, spec: { ...policy.spec, matchConstraints: { ...given, resourceRules } } };
  });
}
