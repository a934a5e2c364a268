import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { z } from "zod";
import { createPerKeyQueue } from "../../concurrency/per_key_queue.ts";
import type { Secret } from "../resources.ts";
import { isMissing, removeDurably, writeAtomically } from "./atomic_file.ts";

/** Secrets as files in Kubernetes' format. Only the files' owner can read them. */
export type SecretFiles = {
  read(namespace: string, name: string): Promise<Secret | undefined>;
  /** Creates a Secret, or replaces exactly `previous`. Returns `false` if a different Secret exists. */
  write(secret: Omit<Secret, "version">, previous?: Secret): Promise<boolean>;
  /** Removes exactly this version. Returns `false` if the Secret has changed. */
  remove(secret: Secret): Promise<boolean>;
};

const text = z.record(z.string(), z.string());
const secretFile = z.object({
  apiVersion: z.literal("v1"),
  kind: z.literal("Secret"),
  metadata: z.object({ labels: text.optional(), annotations: text.optional() }),
  type: z.string().default("Opaque"),
  data: text.default({}),
  stringData: text.default({}),
});

/** Opens a folder of Secrets, `<namespace>/<name>.yaml`. */
export function openSecretFiles(folder: string): SecretFiles {
  const oneAtATime = createPerKeyQueue();
  const pathOf = (namespace: string, name: string) => join(folder, namespace, `${name}.yaml`);

  async function read(namespace: string, name: string): Promise<Secret | undefined> {
    try {
      return parseSecret(namespace, name, await readFile(pathOf(namespace, name), "utf8"));
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  const isCurrent = async ({ namespace, name, version }: Secret) =>
    (await read(namespace, name))?.version === version;

  return {
    read,
    write: (secret, previous) => {
      const path = pathOf(secret.namespace, secret.name);
      return oneAtATime(path, async () => {
        if (previous !== undefined && !(await isCurrent(previous))) return false;
        const replace = previous !== undefined;
        return writeAtomically(path, secretText(secret), { mode: 0o600, folderMode: 0o700, replace });
      });
    },
    remove: (secret) => {
      const path = pathOf(secret.namespace, secret.name);
      return oneAtATime(path, async () => {
        const current = await read(secret.namespace, secret.name);
        if (current !== undefined && current.version !== secret.version) return false;
        await removeDurably(path);
        return true;
      });
    },
  };
}

/** Parses a Secret. A file without one gets an empty type, so that the operator never overwrites the file. */
function parseSecret(namespace: string, name: string, source: string): Secret {
  const version = hash("sha256", source, "hex");
  const result = secretFile.safeParse(parsed(source));
  if (!result.success) return { namespace, name, type: "", labels: {}, annotations: {}, data: {}, version };
  const { metadata, type, data, stringData } = result.data;
  const decoded = Object.entries(data).map(([key, value]) => [
    key,
    Buffer.from(value, "base64").toString("utf8"),
  ]);
  return {
    namespace,
    name,
    type,
    labels: metadata.labels ?? {},
    annotations: metadata.annotations ?? {},
    data: { ...Object.fromEntries(decoded), ...stringData },
    version,
  };
}

function secretText(secret: Omit<Secret, "version">): string {
  const { namespace, name, type, labels, annotations, data } = secret;
  const encoded = Object.entries(data).map(([key, value]) => [
    key,
    Buffer.from(value, "utf8").toString("base64"),
  ]);
  const metadata = { name, namespace, labels, annotations };
  return stringify(
    { apiVersion: "v1", kind: "Secret", metadata, type, data: Object.fromEntries(encoded) },
    { lineWidth: 0 },
  );
}

function parsed(source: string): unknown {
  try {
    return parse(source);
  } catch {
    return undefined;
  }
}
