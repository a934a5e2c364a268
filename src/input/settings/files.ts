import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { clusterId } from "../cluster_fields.ts";
import type { Fault } from "./start_error.ts";

/** A setting with a PEM text, and the text if there is one. */
export type Pem = { name: string; text: string | undefined };

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * Checks PEM texts: authorities, and a client's certificate with its key. Node itself accepts any text as an
 * authority, and shows OpenSSL's errors for the others.
 */
export function pemFaults({ ca, cert, key }: Record<"ca" | "cert" | "key", Pem>): Fault[] {
  const faults: Fault[] = [];
  const read = <T>({ name, text }: Pem, what: string, readPem: (pem: string) => T): T | undefined => {
    try {
      return text === undefined ? undefined : readPem(text);
    } catch {
      faults.push({ name, message: `is not ${what} in PEM` });
      return undefined;
    }
  };
  const toCertificate = (pem: string) => new X509Certificate(pem);
  read(ca, "a certificate", (pem) => (pem.match(CERTIFICATE) ?? [pem]).map(toCertificate));
  const certificate = read(cert, "a certificate", toCertificate);
  const privateKey = read<KeyObject>(key, "a private key without a passphrase", createPrivateKey);
  if (certificate !== undefined && privateKey !== undefined && !certificate.checkPrivateKey(privateKey)) {
    faults.push({ name: key.name, message: `is not the key of ${cert.name}` });
  }
  return faults;
}

type PemFile = { name: string; path: string | undefined };

/** Like {@link pemFaults}, for settings that name the files. */
export function pemFileFaults({ ca, cert, key }: Record<"ca" | "cert" | "key", PemFile>): Fault[] {
  const faults: Fault[] = [];
  const read = ({ name, path }: PemFile): Pem => {
    const text = path === undefined ? undefined : readText(path);
    if (path !== undefined && text === undefined) faults.push({ name, message: UNREADABLE });
    return { name, text };
  };
  const found = pemFaults({ ca: read(ca), cert: read(cert), key: read(key) });
  return [...faults, ...found];
}

/** The message about a setting whose file cannot be read. */
export const UNREADABLE = "names a file that cannot be read";

/** Returns the content of a file, or `undefined` if it cannot be read. */
export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

const clusterEntry = z.strictObject({
  id: clusterId,
  kubeconfig: z.string().min(1).optional(),
  context: z.string().min(1).optional(),
  operator: z.string().min(1).max(253).optional(),
});
const clustersFile = z.strictObject({ clusters: z.array(clusterEntry).max(256) });

/**
 * A cluster whose operator the API believes. `operator` is the operator's user in the cluster. An entry
 * without `kubeconfig` is the API's own cluster.
 */
export type ClusterEntry = z.infer<typeof clusterEntry>;

/** Reads the file in the setting `CLUSTERS_FILE`. Paths in it are relative to the file. */
export function readClusters(
  path: string,
): { entries: ClusterEntry[]; fault?: never } | { entries?: never; fault: string } {
  const text = readText(path);
  if (text === undefined) return { fault: UNREADABLE };
  let content: unknown;
  try {
    content = parse(text);
  } catch {
    return { fault: "the file is not YAML" };
  }
  const result = clustersFile.safeParse(content);
  if (!result.success) {
    const faults = result.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
    return { fault: `the file has faults:\n    ${faults.join("\n    ")}` };
  }
  const { clusters } = result.data;
  const twice = clusters.find(({ id }, n) => clusters.findIndex((other) => other.id === id) !== n);
  if (twice !== undefined) return { fault: `the cluster ${twice.id} is listed twice` };
  const entries = clusters.map(({ kubeconfig, ...rest }) => ({
    ...rest,
    ...(kubeconfig !== undefined && { kubeconfig: resolve(dirname(path), kubeconfig) }),
  }));
  return { entries };
}
