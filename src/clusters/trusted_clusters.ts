import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { AuthenticationV1Api, CustomObjectsApi } from "@kubernetes/client-node";
import { parse } from "yaml";
import { z } from "zod";
import type { Clock } from "../clock.ts";
import { ConfigError } from "../config.ts";
import { clusterId } from "../input/cluster_fields.ts";
import { openAccess } from "../kubernetes/access.ts";
import { createClusterClient } from "../kubernetes/client.ts";
import { DEFAULT_OPERATOR } from "../kubernetes/policies.ts";

const entry = z.strictObject({
  id: clusterId,
  kubeconfig: z.string().min(1).optional(),
  context: z.string().min(1).optional(),
  operator: z.string().min(1).max(253).default(DEFAULT_OPERATOR),
});
const file = z.strictObject({ clusters: z.array(entry).max(256) });

/**
 * `operator` is the operator's user in the cluster. An entry without `kubeconfig` is the API's own cluster.
 */
type ClusterEntry = z.infer<typeof entry>;

/**
 * Reads the file in the setting `CLUSTERS_FILE`. Paths in it are relative to the file. Throws `ConfigError`
 * with the location of the fault.
 */
export async function readClustersFile(path: string): Promise<ClusterEntry[]> {
  const fail = (why: string) => new ConfigError(`CLUSTERS_FILE: ${why}`);
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch {
    throw fail("names a file that cannot be read");
  }
  let content: unknown;
  try {
    content = parse(text);
  } catch {
    throw fail("the file is not YAML");
  }
  const result = file.safeParse(content);
  if (!result.success) {
    const faults = result.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
    throw fail(`the file has faults:\n  ${faults.join("\n  ")}`);
  }
  const { clusters } = result.data;
  const twice = clusters.find(({ id }, n) => clusters.findIndex((other) => other.id === id) !== n);
  if (twice !== undefined) throw fail(`the cluster ${twice.id} is listed twice`);
  return clusters.map(({ kubeconfig, ...rest }) => ({
    ...rest,
    ...(kubeconfig !== undefined && { kubeconfig: resolve(dirname(path), kubeconfig) }),
  }));
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
