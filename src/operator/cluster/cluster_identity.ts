import { z } from "zod";
import { StartError } from "../../config.ts";
import type { ClusterClient } from "../../kubernetes/client.ts";
import { isStatus } from "../../kubernetes/cluster_error.ts";
import { pause } from "../../kubernetes/pause.ts";
import type { Logger } from "../../log.ts";

/** The ConfigMap in the operator's namespace that records the id under which the API knows the cluster. */
export const IDENTITY_NAME = "deputize-cluster";
const KEY = "clusterID";

const RETRY_MS = 2_000;

/** Thrown if the operator has another cluster id than the one under which it registered the objects. */
export class ClusterIdChanged extends StartError {
  constructor({ recorded, id, namespace }: { recorded: string; id: string; namespace: string }) {
    super(
      `The cluster id is ${id}, but the ConfigMap ${namespace}/${IDENTITY_NAME} records ${recorded === "" ? "none" : recorded}. Under another id the service knows none of this cluster's objects, and their authority stays in force. Set CLUSTER_ID (in the chart: operator.clusterId) to the recorded id. If the recorded id is the wrong one (Delegations are ExternalMissing under it), delete only this ConfigMap. Only to register everything again under the new id, first delete all Delegations with the recorded id, and then this ConfigMap`,
    );
    this.name = "ClusterIdChanged";
  }
}

type Options = {
  client: Pick<ClusterClient, "core" | "until">;
  /** The operator's namespace. */
  namespace: string;
  /** The id in the settings. If absent, the uid of the namespace `kube-system`. */
  configured: string | undefined;
  log: Logger;
  signal: AbortSignal;
  /** For tests, in milliseconds. */
  retryMs?: number;
};

/**
 * Returns the id under which the API knows the cluster, or `undefined` if `signal` aborts first. The first
 * start records the id in the cluster. Tries again until the cluster answers. Throws `ClusterIdChanged` if
 * the cluster records another id.
 */
export async function establishClusterId(options: Options): Promise<string | undefined> {
  const { configured, namespace } = options;
  const id =
    configured ??
    (await untilAnswered(options, "allow get on the namespace kube-system, or set CLUSTER_ID", () =>
      readClusterUid(options),
    ));
  if (id === undefined) return undefined;
  const hint = `allow get and create on the ConfigMap ${IDENTITY_NAME}`;
  const recorded = await untilAnswered(options, hint, () => recordedId(options, id));
  if (recorded !== undefined && recorded !== id) throw new ClusterIdChanged({ recorded, id, namespace });
  return recorded;
}

async function untilAnswered(
  { log, signal, retryMs = RETRY_MS }: Options,
  hint: string,
  ask: () => Promise<string>,
): Promise<string | undefined> {
  while (!signal.aborted) {
    try {
      return await ask();
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error }, `the id of the cluster could not be read: ${hint}`);
      await pause(retryMs, signal);
    }
  }
  return undefined;
}

const namespaceObject = z.object({ metadata: z.object({ uid: z.string() }) });

/** Returns the uid of `kube-system`, which lasts as long as the cluster. */
async function readClusterUid({ client, signal }: Options): Promise<string> {
  const answer = await client.core.readNamespace({ name: "kube-system" }, client.until(signal));
  return namespaceObject.parse(answer).metadata.uid;
}

const configMap = z.object({ data: z.record(z.string(), z.string()).default({}) });

/** Returns the id in the ConfigMap, empty if it has none. Creates a missing ConfigMap with `id`. */
async function recordedId({ client, namespace, signal }: Options, id: string): Promise<string> {
  const read = async () => {
    const place = { namespace, name: IDENTITY_NAME };
    const answer = await client.core.readNamespacedConfigMap(place, client.until(signal));
    return configMap.parse(answer).data[KEY] ?? "";
  };
  try {
    return await read();
  } catch (error) {
    if (!isStatus(error, 404)) throw error;
  }
  const body = { metadata: { name: IDENTITY_NAME, namespace }, data: { [KEY]: id } };
  try {
    await client.core.createNamespacedConfigMap({ namespace, body }, client.until(signal));
    return id;
  } catch (error) {
    if (isStatus(error, 409)) return read();
    throw error;
  }
}
