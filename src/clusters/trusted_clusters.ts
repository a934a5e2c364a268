import type { AuthenticationV1Api, CustomObjectsApi } from "@kubernetes/client-node";
import type { Clock } from "../clock.ts";
import { openAccess } from "../kubernetes/access.ts";
import { createClusterClient } from "../kubernetes/client.ts";
import type { ClusterEntry } from "./clusters_file.ts";

/** A cluster that the API asks about tokens and objects. */
export type TrustedCluster = {
  operator: string;
  client: {
    authentication: Pick<AuthenticationV1Api, "createTokenReview">;
    custom: Pick<CustomObjectsApi, "getClusterCustomObject" | "getNamespacedCustomObject">;
    close(): Promise<void>;
  };
};

/** The clusters of the API's settings. */
export type TrustedClusters = {
  get(id: string): TrustedCluster | undefined;
  close(): Promise<void>;
};

/** The API waits no longer than its own callers do. */
const DEADLINE_MS = 5_000;

/** No cluster: only the shared token is believed. */
export const noClusters: TrustedClusters = { get: () => undefined, close: async () => undefined };

/**
 * Opens a way to each cluster. None is called yet: one that is away keeps nothing from starting. Throws
 * `StartError` for a kubeconfig that cannot be used.
 */
export async function openClusters(
  entries: readonly ClusterEntry[],
  { clock }: { clock: Clock },
): Promise<TrustedClusters> {
  const clusters = new Map<string, TrustedCluster>();
  for (const { id, kubeconfig, context, operator } of entries) {
    const access = await openAccess({ file: kubeconfig, context, clock });
    clusters.set(id, { operator, client: await createClusterClient({ access, deadlineMs: DEADLINE_MS }) });
  }
  return {
    get: (id) => clusters.get(id),
    async close() {
      await Promise.all([...clusters.values()].map(({ client }) => client.close()));
    },
  };
}
