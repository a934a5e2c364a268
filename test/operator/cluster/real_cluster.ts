import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../../../src/clock.ts";
import type { TrustedClusters } from "../../../src/clusters/trusted_clusters.ts";
import { createClusterClient } from "../../../src/kubernetes/client.ts";
import { DEFAULT_OPERATOR } from "../../../src/kubernetes/policies.ts";
import { createVaultClient, type VaultClient } from "../../../src/vault/client.ts";
import { readIdentity, startVault, type TestVault } from "../../keyvault/fixture.ts";
import { vaultForApi } from "../../keyvault/for_api.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { installPolicies, OPERATOR } from "../../support/kubernetes/policies.ts";
import type { Kubernetes } from "../../support/kubernetes/server.ts";
import { type Person, type PlatformApi, startPlatformApi } from "../../support/platform_world.ts";
import { adminAccess } from "./cluster_harness.ts";
import { type OperatorCluster, operatorCluster } from "./operator_cluster.ts";

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const ACCOUNT = "/api/v1/namespaces/deputize-system/serviceaccounts";

/** What the API calls the cluster begins with this; each operator has a name of its own for it. */
const CLUSTER = "real-";

/** `cluster` is what the API calls the cluster of this operator. */
export type RealWorld = { person: Person; world: OperatorCluster; cluster: string };

/** A real API server with our definitions and policies, the real API, which trusts it, and its vault. */
export type RealCluster = {
  kubernetes: Kubernetes;
  api: PlatformApi;
  /** Has the vault away while something happens; afterwards it runs again. */
  withoutVault(happens: () => Promise<void>): Promise<void>;
  /** A token of a service account of the operator's namespace. */
  tokenOf(account: string, audience: string): Promise<string>;
  /** A person with an account, and an operator that watches one namespace, bound to that account. */
  open(): Promise<RealWorld>;
  stop(): Promise<void>;
};

/**
 * Starts API and vault beside an API server, which ends with them. The operator may do everything.
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
  const api = await startPlatformApi({ trusted: clusters, vault: vaultForApi(() => vault.client) });
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

/** The vault, at the machine's time, over mutual TLS with the API's certificate. */
async function connected(running: TestVault): Promise<ConnectedVault> {
  running.clock.now = () => systemClock.now();
  return { running, client: createVaultClient({ url: running.url, ...readIdentity(running.home, "api") }) };
}
