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
const RIGHTS = `allow get and create on the ConfigMap ${IDENTITY_NAME}`;

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

/** The cluster's id. */
export type ClusterIdentity = {
  id: string;
  /**
   * Records the id in the cluster, unless the cluster already records it. For the moment when the API has
   * accepted the id, so that a misspelled id is never recorded. Throws `ClusterIdChanged` if another operator
   * has recorded another id.
   */
  record(): Promise<void>;
};

/**
 * Returns the id under which the API knows the cluster, or `undefined` if `signal` aborts first. Tries again
 * until the cluster answers. Throws `ClusterIdChanged` if the cluster records another id.
 */
export async function establishClusterId(options: Options): Promise<ClusterIdentity | undefined> {
  const { configured } = options;
  const id =
    configured ??
    (await untilAnswered(options, "allow get on the namespace kube-system, or set CLUSTER_ID", () =>
      readClusterUid(options),
    ));
  if (id === undefined) return undefined;
  const found = await untilAnswered(options, RIGHTS, async () => ({ recorded: await readRecord(options) }));
  if (found === undefined) return undefined;
  requireSameId(options, id, found.recorded);
  let isRecorded = found.recorded !== undefined;
  return {
    id,
    async record() {
      if (isRecorded) return;
      await writeRecord(options, id).catch((error: unknown) => {
        const isMissing = !(error instanceof ClusterIdChanged);
        if (isMissing) options.log.warn({ err: error }, `the cluster id could not be recorded: ${RIGHTS}`);
        throw error;
      });
      isRecorded = true;
    },
  };
}

function requireSameId({ namespace }: Options, id: string, recorded: string | undefined): void {
  if (recorded !== undefined && recorded !== id) throw new ClusterIdChanged({ recorded, id, namespace });
}

async function untilAnswered<T>(
  { log, signal, retryMs = RETRY_MS }: Options,
  hint: string,
  ask: () => Promise<T>,
): Promise<T | undefined> {
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
function readClusterUid({ client, signal }: Options): Promise<string> {
  return readNamespaceUid(client, "kube-system", client.until(signal));
}

/** Returns the uid of a namespace. */
export async function readNamespaceUid(
  { core }: Pick<ClusterClient, "core">,
  name: string,
  options?: ReturnType<ClusterClient["until"]>,
): Promise<string> {
  return namespaceObject.parse(await core.readNamespace({ name }, options)).metadata.uid;
}

const configMap = z.object({ data: z.record(z.string(), z.string()).default({}) });

/** Returns the id in the ConfigMap: empty if it has none, `undefined` if there is no ConfigMap. */
async function readRecord({ client, namespace, signal }: Options): Promise<string | undefined> {
  try {
    const place = { namespace, name: IDENTITY_NAME };
    const answer = await client.core.readNamespacedConfigMap(place, client.until(signal));
    return configMap.parse(answer).data[KEY] ?? "";
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
}

async function writeRecord(options: Options, id: string): Promise<void> {
  const { client, namespace, signal } = options;
  const body = { metadata: { name: IDENTITY_NAME, namespace }, data: { [KEY]: id } };
  try {
    await client.core.createNamespacedConfigMap({ namespace, body }, client.until(signal));
  } catch (error) {
    if (!isStatus(error, 409)) throw error;
    requireSameId(options, id, await readRecord(options));
  }
}
