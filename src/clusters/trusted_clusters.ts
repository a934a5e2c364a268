import type { AuthenticationV1Api, CustomObjectsApi } from "@kubernetes/client-node";
import type { Clock } from "../clock.ts";
import { type ClusterEntry, readClusters } from "../input/settings/files.ts";
import { configError } from "../input/settings/start_error.ts";
import { openAccess } from "../kubernetes/access.ts";
import { createClusterClient } from "../kubernetes/client.ts";
import { DEFAULT_OPERATOR } from "../kubernetes/policies.ts";

/** Reads the file in the setting `CLUSTERS_FILE`. Throws `ConfigError` with the location of the fault. */
export function readClustersFile(path: string): (ClusterEntry & { operator: string })[] {
  const { entries, fault } = readClusters(path);
  if (entries === undefined) throw configError([{ name: "CLUSTERS_FILE", message: fault }]);
  return entries.map((entry) => ({ ...entry, operator: entry.operator ?? DEFAULT_OPERATOR }));
}

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

/** This timeout is short, because the operator waits for the API's answer meanwhile. */
const DEADLINE_MS = 5_000;

/**
 * Prepares the access to each cluster without calling it, so an unavailable cluster does not prevent startup.
 * Throws `StartError` for an unusable kubeconfig.
 */
export async function openClusters(
  entries: ReturnType<typeof readClustersFile>,
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
