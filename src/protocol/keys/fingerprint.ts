import { hash } from "node:crypto";
import { canonicalBytes } from "../encoding/canonical.ts";

/** What people compare of a public key: `sha256:` and the hash of its canonical JSON. */
export function fingerprintOfKey(publicKey: unknown): string {
  return `sha256:${hash("sha256", canonicalBytes(publicKey), "hex")}`;
}
