import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";

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
