import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Gauge } from "prom-client";
import type { Metrics } from "../metrics.ts";

/**
 * Files of the client's end, PEM: the authority that signed the vault's certificate, and the client's own
 * certificate with its key.
 */
export type CredentialFiles = { ca: string; cert: string; key: string };

/** What those files hold. */
export type Credentials = { ca: Buffer; cert: Buffer; key: Buffer };

const EVERY_MS = 5_000;

/** Reads the files. Rejects with the file system's error. */
export async function readCredentials(files: CredentialFiles): Promise<Credentials> {
  const [ca, cert, key] = await Promise.all([readFile(files.ca), readFile(files.cert), readFile(files.key)]);
  return { ca, cert, key };
}

/**
 * Calls `apply` whenever the files hold something else than before, looking every `everyMs`; ends by the
 * function it gives. Files that cannot be read or do not belong together, as in the middle of being
 * exchanged, are looked at again the next time.
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
 * Shows when the certificate in a file ends, by which the vault knows this process. The file is read at each
 * look, as the client does every few seconds; while it holds no certificate there is no value.
 */
export function showCertificateEnd({ registry }: Pick<Metrics, "registry">, file: string): void {
  new Gauge({
    name: "deputize_vault_certificate_expiry_timestamp_seconds",
    help: "When the certificate ends by which the vault knows this process, in Unix seconds",
    registers: [registry],
    async collect() {
      // Not reset(), which would leave a 0 behind: the year 1970.
      this.remove();
      const end = await certificateEnd(file);
      if (end !== undefined) this.set(end.getTime() / 1000);
    },
  });
}

/** When the certificate in a file ends; undefined while the file holds none. */
export async function certificateEnd(file: string): Promise<Date | undefined> {
  try {
    return new X509Certificate(await readFile(file)).validToDate;
  } catch {
    return undefined;
  }
}
