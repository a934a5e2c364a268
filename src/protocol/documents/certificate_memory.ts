import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { LRUCache } from "lru-cache";
import { ProtocolError } from "../encoding/errors.ts";
import type { JsonMemo, JsonValue } from "../encoding/json.ts";
import type { HybridSignature } from "../keys/hybrid.ts";
import { certificate, certificateText, type DelegationCert, sourceOf } from "./certificate.ts";
import { findWritten, readWritten, type WrittenCertificate } from "./written_certificate.ts";

/**
 * Cache of complete certificates whose own signature was verified recently. The parser recognizes them in a
 * document by their bytes, and does not parse or decode them again.
 */
export type RecentCertificates = JsonMemo & {
  /**
   * Returns a certificate's canonical JSON, including its signature, in UTF-8. Returns `undefined` unless the
   * cache contains a certificate that is equal in every field. Callers must not write to the buffer.
   */
  bytesOf(certificate: DelegationCert): Buffer | undefined;
  /** Stores a certificate whose signature is valid, unless it is very long or has no canonical form. */
  add(certificate: DelegationCert): void;
};

type Kept = { value: DelegationCert; canonical: Buffer; written?: WrittenCertificate };

/**
 * Maximum size in bytes of a stored certificate. Storing a certificate takes several times as long as parsing
 * it: 0.1 s for 120 kB with as many values as possible.
 */
const LONGEST_KEPT = 32 * 1024;

/**
 * Creates a cache that evicts the least recently used certificates beyond `maxBytes`. This limit includes the
 * memory that the parsed values use, because a certificate may have one value for every two or three bytes.
 * The cache stores copies only, so it does not retain the source documents.
 */
export function createRecentCertificates(maxBytes: number): RecentCertificates {
  const byStart = new Map<string, WrittenCertificate>();
  const bySignature = new LRUCache<string, Kept>({
    maxSize: maxBytes,
    sizeCalculation: sizeOf,
    dispose({ written }) {
      if (written !== undefined && byStart.get(written.start) === written) byStart.delete(written.start);
    },
  });
  const byIdentity = new WeakMap<DelegationCert, Buffer>();
  /** The bytes from which each value was parsed. */
  const parts = new WeakMap<JsonValue & object, Buffer>();

  function knowUnchangeable(value: DelegationCert, canonical: Buffer): void {
    if (certificate.isKept(value)) byIdentity.set(value, canonical);
  }

  function partOf(good: DelegationCert): Buffer | undefined {
    const source = sourceOf(good);
    return typeof source === "object" && source !== null ? parts.get(source) : undefined;
  }

  function keep(good: DelegationCert, canonical: Buffer): void {
    const part = partOf(good);
    const written = part && readWritten(part);
    // Stores the bytes only if they still match the verified certificate, because the caller may have changed
    // the object after decoding.
    const kept: Kept =
      written !== undefined && isDeepStrictEqual(written.value, good)
        ? { value: written.value, canonical, written }
        : { value: JSON.parse(canonical.toString("utf8")) as DelegationCert, canonical };
    bySignature.set(kept.value.signature.ed25519, kept);
    if (kept.written !== undefined && bySignature.peek(kept.value.signature.ed25519) === kept) {
      byStart.set(kept.written.start, kept.written);
    }
    knowUnchangeable(kept.value, canonical);
    knowUnchangeable(good, canonical);
  }

  return {
    find: (document) =>
      findWritten(document, (start) => {
        const written = byStart.get(start);
        if (written !== undefined) bySignature.get(written.value.signature.ed25519);
        return written;
      }),
    note(value, part) {
      if ("subject_pub_key" in value) parts.set(value, part);
    },
    bytesOf(asked) {
      const known = byIdentity.get(asked);
      if (known !== undefined) return known;
      const kept = bySignature.get(asked.signature.ed25519);
      if (kept === undefined || !isDeepStrictEqual(kept.value, asked)) return undefined;
      if (kept.written !== undefined) {
        // Restores the entry. A different certificate with the same first bytes may have replaced it, and may
        // have been evicted since.
        byStart.set(kept.written.start, kept.written);
      } else if ((partOf(asked)?.length ?? Number.POSITIVE_INFINITY) <= LONGEST_KEPT) {
        keep(asked, kept.canonical);
      }
      knowUnchangeable(asked, kept.canonical);
      return kept.canonical;
    },
    add(good) {
      if ((partOf(good)?.length ?? 0) > LONGEST_KEPT) return;
      const text = canonicalText(good);
      if (text !== undefined && text.length <= LONGEST_KEPT) keep(good, Buffer.from(text, "utf8"));
    },
  };
}

/** Returns the size in bytes. A certificate from a document counts twice: as parsed and as decoded value. */
function sizeOf({ value, canonical, written }: Kept): number {
  const [text, times] = written === undefined ? [canonical, 1] : [written.bytes, 2];
  const bytes = canonical.length + text.length * times;
  return bytes + times * structureBytes(value);
}

function canonicalText(certificate: DelegationCert): string | undefined {
  try {
    return certificateText(certificate);
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

/** Cache of certificates whose own signature is valid. Ignores time, revocation and constraints. */
export type CertificateMemory = {
  /** Returns whether exactly this signature over exactly these signed bytes was verified before. */
  has(key: string): boolean;
  add(key: string): void;
  recent?: RecentCertificates;
};

const DEFAULT_MAX = 100_000;
const DEFAULT_RECENT_BYTES = 48 * 1024 * 1024;

/**
 * Creates a cache that evicts the least recently used beyond `max` certificates, at about 200 bytes each. It
 * also stores the most recently used certificates completely, within `recentBytes`. The default is enough for
 * about 1,400 complete certificates.
 */
export function createCertificateMemory(
  max: number = DEFAULT_MAX,
  recentBytes: number = DEFAULT_RECENT_BYTES,
): CertificateMemory {
  // `max` would allocate memory for all entries in advance.
  const remembered = new LRUCache<string, true>({ maxSize: max, sizeCalculation: () => 1 });
  return {
    has: (key) => remembered.get(key) === true,
    add: (key) => void remembered.set(key, true),
    recent: createRecentCertificates(recentBytes),
  };
}

/**
 * Returns SHA-256 over signed bytes and signature, as base64. The signed bytes include the issuer's key.
 * Base64 never contains `.`, so no other split into parts gives the same hash input.
 */
export function memoryKey(signedBytes: Uint8Array, { ed25519, ml_dsa_65 }: HybridSignature): string {
  return createHash("sha256").update(signedBytes).update(`.${ed25519}.${ml_dsa_65}`, "utf8").digest("base64");
}

/** Measured bytes of a number or string, of an array or object, and of a member name. */
const [LEAF_BYTES, COLLECTION_BYTES, NAME_BYTES] = [40, 240, 120];

/**
 * Returns about how many bytes a value and all nested values use in memory, without the bytes of its strings.
 * For `[0],[0],…` the result is many times the size of the JSON. Limit this number when you store untrusted
 * values.
 */
export function structureBytes(value: unknown): number {
  if (typeof value !== "object" || value === null) return LEAF_BYTES;
  const members = Object.values(value);
  const names = Array.isArray(value) ? 0 : members.length * NAME_BYTES;
  return members.reduce((bytes: number, member) => bytes + structureBytes(member), COLLECTION_BYTES + names);
}
