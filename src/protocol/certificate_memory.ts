import { createHash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { HybridSignature } from "./hybrid.ts";

/** Certificates whose own signature was found good, so that it need not be checked again. Knows nothing of time, revocation or constraints. */
export interface CertificateMemory {
  /** Whether exactly these signed bytes were seen with exactly this signature, and it was good. */
  has(key: string): boolean;
  add(key: string): void;
}

const DEFAULT_MAX = 100_000;

/** A memory that forgets the least recently used beyond `max` certificates; about 200 bytes each. */
export function createCertificateMemory(max: number = DEFAULT_MAX): CertificateMemory {
  const remembered = new LRUCache<string, true>({ max });
  return {
    has: (key) => remembered.get(key) === true,
    add: (key) => void remembered.set(key, true),
  };
}

/** SHA-256 over signed bytes and signature, as base64. The issuer's key is among the signed bytes; the signature's length is fixed. */
export function memoryKey(signedBytes: Uint8Array, signature: HybridSignature): string {
  return createHash("sha256")
    .update(signedBytes)
    .update(signature.ed25519, "latin1")
    .update(signature.ml_dsa_65, "latin1")
    .digest("base64");
}
