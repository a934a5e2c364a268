import { z } from "zod";
import type { ClusterClient } from "../../kubernetes/client.ts";
import { isStatus } from "../../kubernetes/cluster_error.ts";
import type { Secret } from "../resources.ts";

/** Reads and writes Secrets of a cluster. */
export type ClusterSecrets = {
  read(namespace: string, name: string): Promise<Secret | undefined>;
  /** Creates a Secret, or replaces exactly `previous`. Returns `false` if a different Secret exists. */
  write(secret: Omit<Secret, "version">, previous?: Secret): Promise<boolean>;
  /** Removes exactly this version. Returns `false` if the Secret has changed. */
  remove(secret: Secret): Promise<boolean>;
};

const text = z.record(z.string(), z.string());
const secretAnswer = z.object({
  metadata: z.object({
    resourceVersion: z.string(),
    labels: text.optional(),
    annotations: text.optional(),
  }),
  type: z.string(),
  data: text.optional(),
});

const MANAGER = { fieldManager: "deputize-operator" };

/** Creates access to Secrets through a client. A Secret's version is its resourceVersion, which is unique. */
export function createClusterSecrets(client: Pick<ClusterClient, "core">): ClusterSecrets {
  async function create({ namespace, name, type, labels, annotations, data }: Omit<Secret, "version">) {
    const metadata = { name, namespace, labels, annotations };
    await client.core.createNamespacedSecret({
      namespace,
      ...MANAGER,
      body: { metadata, type, data: encoded(data) },
    });
  }

  async function replace({ namespace, name, ...secret }: Omit<Secret, "version">, previous: Secret) {
    await client.core.patchNamespacedSecret({
      namespace,
      name,
      ...MANAGER,
      body: {
        metadata: {
          resourceVersion: previous.version,
          labels: { ...nothingOf(previous.labels), ...secret.labels },
          annotations: { ...nothingOf(previous.annotations), ...secret.annotations },
        },
        type: secret.type,
        data: { ...nothingOf(previous.data), ...encoded(secret.data) },
      },
    });
  }

  return {
    async read(namespace, name) {
      const answer = await client.core.readNamespacedSecret({ namespace, name }).catch((error) => {
        if (isStatus(error, 404)) return undefined;
        throw error;
      });
      if (answer === undefined) return undefined;
      const { metadata, type, data } = secretAnswer.parse(answer);
      return {
        namespace,
        name,
        type,
        labels: metadata.labels ?? {},
        annotations: metadata.annotations ?? {},
        data: decoded(data ?? {}),
        version: metadata.resourceVersion,
      };
    },
    async write(secret, previous) {
      try {
        await (previous === undefined ? create(secret) : replace(secret, previous));
        return true;
      } catch (error) {
        const isOther = isStatus(error, 409) || (previous !== undefined && isStatus(error, 404));
        if (isOther) return false;
        throw error;
      }
    },
    async remove({ namespace, name, version }) {
      try {
        const body = { preconditions: { resourceVersion: version } };
        await client.core.deleteNamespacedSecret({ namespace, name, body });
        return true;
      } catch (error) {
        if (isStatus(error, 404)) return true;
        if (isStatus(error, 409)) return false;
        throw error;
      }
    },
  };
}

function nothingOf(record: Record<string, string>): Record<string, null> {
  return Object.fromEntries(Object.keys(record).map((name) => [name, null]));
}

function encoded(data: Record<string, string>): Record<string, string> {
  const entries = Object.entries(data);
  return Object.fromEntries(entries.map(([name, value]) => [name, Buffer.from(value).toString("base64")]));
}

function decoded(data: Record<string, string>): Record<string, string> {
  const entries = Object.entries(data);
  return Object.fromEntries(entries.map(([name, value]) => [name, Buffer.from(value, "base64").toString()]));
}
