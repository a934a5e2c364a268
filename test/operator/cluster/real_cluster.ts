import { setTimeout as sleep } from "node:timers/promises";
import { createClusterClient } from "../../../src/kubernetes/client.ts";
import { DEFAULT_OPERATOR } from "../../../src/kubernetes/policies.ts";
import type { TrustedClusters } from "../../../src/platforms/clusters/trusted_clusters.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { installPolicies, OPERATOR } from "../../support/kubernetes/policies.ts";
import { type Kubernetes, type KubernetesTokens, startKubernetes } from "../../support/kubernetes/server.ts";
import { type Person, type PlatformApi, startPlatformApi } from "../../support/platform_world.ts";
import { adminAccess } from "./cluster_harness.ts";
import { type OperatorCluster, operatorCluster } from "./operator_cluster.ts";

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const ACCOUNT = "/api/v1/namespaces/deputize-system/serviceaccounts";

/** What the API calls the cluster. */
export const CLUSTER = "real";

/** A real API server with our definitions and policies, and the real API, which trusts it. */
export type RealCluster = {
  kubernetes: Kubernetes;
  api: PlatformApi;
  /** A token of a service account of the operator's namespace. */
  tokenOf(account: string, audience: string): Promise<string>;
  /** A person with an account, and an operator in a namespace that is bound to it. */
  open(): Promise<{ person: Person; world: OperatorCluster }>;
  stop(): Promise<void>;
};

/** Starts both. The operator may do everything; `tokens` are people's. Keys are made by the tests' vault. */
export async function startRealCluster(binary: string, tokens: KubernetesTokens = {}): Promise<RealCluster> {
  const kubernetes = await startKubernetes(binary, tokens);
  await installDefinitions(kubernetes);
  await installPolicies(kubernetes);
  const begun = performance.now();
  await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: "deputize-system" } });
  for (const name of ["deputize-operator", "other"]) {
    await kubernetes.call("POST", ACCOUNT, { metadata: { name } });
  }
  await kubernetes.call("POST", `${RBAC}/clusterrolebindings`, {
    metadata: { name: "operator" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name: OPERATOR.name }],
  });
  const client = createClusterClient({ access: adminAccess(kubernetes) });
  const clusters: TrustedClusters = {
    get: (id) => (id === CLUSTER ? { operator: DEFAULT_OPERATOR, client } : undefined),
    close: () => client.close(),
  };
  const api = await startPlatformApi({ trusted: clusters });
  // Only what was created ten seconds after the policies were guarded all its life.
  await sleep(Math.max(0, 12_000 - (performance.now() - begun)));

  async function tokenOf(account: string, audience: string): Promise<string> {
    const { body } = await kubernetes.call("POST", `${ACCOUNT}/${account}/token`, {
      spec: { audiences: [audience], expirationSeconds: 3600 },
    });
    return String((body.status as { token?: string }).token);
  }

  return {
    kubernetes,
    api,
    tokenOf,
    async open() {
      const person = await api.person();
      const world = await operatorCluster(kubernetes, {
        as: OPERATOR.name,
        accountEmail: person.email,
        settings: {
          API_URL: api.url,
          OPERATOR_API_URL: api.operatorUrl,
          OPERATOR_TOKEN: await tokenOf("deputize-operator", "deputize-api"),
          CLUSTER_ID: CLUSTER,
        },
      });
      return { person, world };
    },
    async stop() {
      await api.stop();
      await clusters.close();
      await kubernetes.stop();
    },
  };
}
