import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { AUDIENCE } from "../../src/clusters/token_reviews.ts";
import type { TrustedCluster, TrustedClusters } from "../../src/clusters/trusted_clusters.ts";
import { ClusterError } from "../../src/kubernetes/cluster_error.ts";
import { DEFAULT_OPERATOR } from "../../src/kubernetes/policies.ts";

const POLICIES = join(import.meta.dirname, "../../crds/policies.yaml");
const LONG_AGO = "2025-01-01T00:00:00Z";

type Policy = { metadata: { name: string }; kind: string; spec: Record<string, unknown> };
export type FakeObject = {
  metadata: { uid: string; generation: number; creationTimestamp: string; deletionTimestamp?: string };
  spec: Record<string, unknown>;
  status?: { approval?: Record<string, unknown> };
};

/** The clusters that the API reads, in memory. All cluster IDs refer to the same objects and policies. */
export type FakeCluster = TrustedClusters & {
  /** Delegations by `<namespace>/<name>`. */
  delegations: Map<string, FakeObject>;
  missing: Set<string>;
  policiesSince: string;
  /** True makes all calls fail. `"policies"` makes only calls about policies fail. */
  isAway: boolean | "policies";
};

/** The part of a cluster client that reads objects, for tests that have no objects. */
export const noObjects: Pick<TrustedCluster["client"], "custom" | "close"> = {
  custom: {
    getNamespacedCustomObject: () => Promise.reject(new Error("there are no objects")),
    getClusterCustomObject: () => Promise.reject(new Error("there are no objects")),
  },
  close: async () => undefined,
};

/** Each cluster accepts `token` as that of its operator. */
export function createFakeCluster(token?: string): FakeCluster {
  const policies = readPolicies();
  const fake: FakeCluster = {
    delegations: new Map(),
    missing: new Set(),
    policiesSince: LONG_AGO,
    isAway: false,
    get: (id) => (/^[A-Za-z0-9-]{1,64}$/.test(id) ? { operator: DEFAULT_OPERATOR, client } : undefined),
    close: async () => undefined,
  };

  async function answer(resource: string, object: Promise<object | undefined>): Promise<object> {
    const isAway = fake.isAway === "policies" ? resource !== "delegations" : fake.isAway;
    if (isAway) throw new ClusterError({ verb: "get", resource, reason: "ECONNREFUSED" });
    const found = await object;
    if (found !== undefined) return found;
    throw new ClusterError({ verb: "get", resource, status: 404, reason: "NotFound" });
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

  const client: TrustedCluster["client"] = {
    custom: {
      getNamespacedCustomObject: async ({ plural, namespace, name }) =>
        answer(plural, Promise.resolve(fake.delegations.get(`${namespace}/${name}`))),
      getClusterCustomObject: ({ plural, name }) => answer(plural, policyAt(name, plural)),
    },
    authentication: {
      createTokenReview: async ({ body }) => ({
        spec: body.spec,
        status: {
          authenticated: body.spec.token === token,
          audiences: [AUDIENCE],
          user: { username: DEFAULT_OPERATOR },
        },
      }),
    },
    close: async () => undefined,
  };
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
