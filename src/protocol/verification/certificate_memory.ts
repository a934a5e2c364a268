import { createHash } from "node:crypto";
import { LRUCache } from "lru-cache";
import { createRecentCertificates, type RecentCertificates } from "../documents/recent_certificates.ts";
import type { HybridSignature } from "../keys/hybrid.ts";

/**
 * Certificates whose own signature was found good, so that it need not be checked again. Knows nothing of
 * time, revocation or constraints.
 */
export type CertificateMemory = {
  /** Whether exactly these signed bytes were seen with exactly this signature, and it was good. */
  has(key: string): boolean;
  add(key: string): void;
  /** Those of them that were used lately, recognised before their hash is taken. */
  recent?: RecentCertificates;
};

const DEFAULT_MAX = 100_000;
const DEFAULT_RECENT_BYTES = 48 * 1024 * 1024;

/**
 * A memory that forgets the least recently used beyond `max` certificates, about 200 bytes each. Beside that
 * it keeps the most recently used whole, within `recentBytes`: usually 1,400 of them.
 */
export function createCertificateMemory(
  max: number = DEFAULT_MAX,
  recentBytes: number = DEFAULT_RECENT_BYTES,
): CertificateMemory {
  const remembered = new LRUCache<string, true>({ max });
  return {
    has: (key) => remembered.get(key) === true,
    add: (key) => void remembered.set(key, true),
    recent: createRecentCertificates(recentBytes),
  };
}

/**
 * SHA-256 over signed bytes and signature, as base64. The issuer's key is among the signed bytes. No base64
 * has a `.`, so what is remembered is never mistaken for something cut elsewhere.
 */
export function memoryKey(signedBytes: Uint8Array, { ed25519, ml_dsa_65 }: HybridSignature): string {
  return createHash("sha256").update(signedBytes).update(`.${ed25519}.${ml_dsa_65}`, "utf8").digest("base64");
}
