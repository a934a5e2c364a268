import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Gauge } from "prom-client";
import type { Metrics } from "../metrics.ts";

/** Paths of PEM files: the authority of the vault's certificate, and the client's certificate and key. */
export type CredentialFiles = { ca: string; cert: string; key: string };

/** Contents of the {@link CredentialFiles}. */
export type Credentials = { ca: Buffer; cert: Buffer; key: Buffer };

const EVERY_MS = 5_000;

/** Reads the files. Rejects with the file system's error. */
export async function readCredentials(files: CredentialFiles): Promise<Credentials> {
  const [ca, cert, key] = await Promise.all([readFile(files.ca), readFile(files.cert), readFile(files.key)]);
  return { ca, cert, key };
}

/**
 * Checks the files every `everyMs` milliseconds and calls `apply` after a change. Ignores files that it
 * cannot read, and a certificate that does not match its key, until the next check. Returns a function that
 * stops the watch.
 */
export function watchCredentials(
  files: CredentialFiles,
  first: Credentials,
  apply: (credentials: Credentials) => void,
  everyMs: number = EVERY_MS,
): () => void {
  let known = first;
  const look = async (): Promise<void> => {
    const next = await readCredentials(files).catch(() => known);
    if (!isPair(next)) return;
    if (next.ca.equals(known.ca) && next.cert.equals(known.cert) && next.key.equals(known.key)) return;
    known = next;
    apply(next);
  };
  const timer = setInterval(() => void look(), everyMs).unref();
  return () => clearInterval(timer);
}

function isPair({ cert, key }: Credentials): boolean {
  try {
    return new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

/**
 * Exports a metric with the expiry time of the certificate in `file`. Each scrape reads the file. The metric
 * has no value while the file contains no certificate.
 */
export function showCertificateEnd({ registry }: Pick<Metrics, "registry">, file: string): void {
  new Gauge({
    name: "deputize_vault_certificate_expiry_timestamp_seconds",
    help: "Expiry of this process's client certificate for the vault, in Unix seconds",
    registers: [registry],
    async collect() {
      // `reset()` would leave the value 0, which is a time in 1970.
      this.remove();
      const end = await certificateEnd(file);
      if (end !== undefined) this.set(end.getTime() / 1000);
    },
  });
}

/** Returns the expiry time of the certificate in `file`, or `undefined` if the file contains none. */
export async function certificateEnd(file: string): Promise<Date | undefined> {
  try {
    return new X509Certificate(await readFile(file)).validToDate;
  } catch {
    return undefined;
  }
}
