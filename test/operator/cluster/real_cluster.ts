import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../../../src/clock.ts";
import type { TrustedClusters } from "../../../src/clusters/trusted_clusters.ts";
import { createClusterClient } from "../../../src/kubernetes/client.ts";
import { DEFAULT_OPERATOR } from "../../../src/kubernetes/policies.ts";
import { createVaultClient, type VaultClient } from "../../../src/vault/client.ts";
import { readIdentity, startVault, type TestVault } from "../../keyvault/fixture.ts";
import { vaultForApi } from "../../keyvault/for_api.ts";
import { type Person, startApi, type TestApi } from "../../support/api.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { installPolicies, OPERATOR } from "../../support/kubernetes/policies.ts";
import type { Kubernetes } from "../../support/kubernetes/server.ts";
import { adminAccess } from "./cluster_harness.ts";
import { type OperatorCluster, operatorCluster } from "./operator_cluster.ts";

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const ACCOUNT = "/api/v1/namespaces/deputize-system/serviceaccounts";

/** Prefix of cluster ids. Each operator uses its own id for the cluster. */
const CLUSTER = "real-";

/** `cluster` is the cluster id that this operator uses. */
export type RealWorld = { person: Person; world: OperatorCluster; cluster: string };

/**
 * A real Kubernetes API server with Deputize's definitions and policies, and Deputize's real API and vault.
 * Deputize's API trusts the cluster of this server.
 */
export type RealCluster = {
  kubernetes: Kubernetes;
  api: TestApi;
  withoutVault(happens: () => Promise<void>): Promise<void>;
  tokenOf(account: string, audience: string): Promise<string>;
  /** Creates a person with an account, and an operator that watches a namespace bound to that account. */
  open(): Promise<RealWorld>;
  stop(): Promise<void>;
};

/**
 * Starts API and vault for an API server. Both stop together with that server. The operator has all rights.
 */
export async function startRealCluster(kubernetes: Kubernetes): Promise<RealCluster> {
  await installDefinitions(kubernetes);
  await installPolicies(kubernetes);
  const begun = performance.now();
  await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: "deputize-system" } });
  for (const name of ["deputize-operator", "other"]) {
    await kubernetes.call("POST", ACCOUNT, { metadata: { name } });
  }
  await kubernetes.call("POST", `${RBAC}/clusterrolebindings`, {
    metadata: { name: "deputize-test-operator" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name: OPERATOR.name }],
  });
  const client = await createClusterClient({ access: adminAccess(kubernetes) });
  const clusters: TrustedClusters = {
    get: (id) => (id.startsWith(CLUSTER) ? { operator: DEFAULT_OPERATOR, client } : undefined),
    close: () => client.close(),
  };
  let vault = await connected(await startVault());
  const api = await startApi({ trusted: clusters, vault: vaultForApi(() => vault.client) });
  // Waits, because decisions in the cluster count only on objects that were created at least ten seconds
  // after the policies.
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
    async withoutVault(happens) {
      await vault.running.stop();
      try {
        await happens();
      } finally {
        await vault.client.close();
        vault = await connected(await startVault(vault.running.home));
      }
    },
    async open() {
      const person = await api.person();
      const id = randomUUID().slice(0, 8);
      const cluster = `${CLUSTER}${id}`;
      const world = await operatorCluster(kubernetes, {
        id,
        as: OPERATOR.name,
        accountEmail: person.email,
        settings: {
          API_URL: api.url,
          OPERATOR_API_URL: api.operatorUrl,
          OPERATOR_TOKEN: await tokenOf("deputize-operator", "deputize-api"),
          CLUSTER_ID: cluster,
          WATCH_NAMESPACES: [`shop-${id}`],
        },
      });
      return { person, world, cluster };
    },
    async stop() {
      await api.stop();
      await vault.client.close();
      await vault.running.close();
      await clusters.close();
      await kubernetes.stop();
    },
  };
}

type ConnectedVault = { running: TestVault; client: VaultClient };

/** Connects with the API's certificate, and sets the vault's clock to the machine's time. */
async function connected(running: TestVault): Promise<ConnectedVault> {
  running.clock.now = () => systemClock.now();
  return { running, client: createVaultClient({ url: running.url, ...readIdentity(running.home, "api") }) };
}
