import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { LRUCache } from "lru-cache";
import { ProtocolError } from "../encoding/errors.ts";
import type { JsonMemo, JsonValue } from "../encoding/json.ts";
import type { HybridSignature } from "../keys/hybrid.ts";
import { certificate, certificateText, type DelegationCert, sourceOf } from "./certificate.ts";
import { findWritten, readWritten, type WrittenCertificate } from "./written_certificate.ts";

/**
 * Complete certificates whose own signature verified recently. In a document, they are recognized by their
 * bytes, and neither parsed nor decoded again. For decoded certificates, the lookup needs neither a hash nor
 * the canonical text.
 */
export type RecentCertificates = JsonMemo & {
  /**
   * Returns the canonical JSON of a certificate, including its signature, in UTF-8. Returns `undefined`
   * unless the memory contains a certificate that is equal in every field. Callers must not write to the
   * buffer.
   */
  bytesOf(certificate: DelegationCert): Buffer | undefined;
  /**
   * Stores a certificate whose signature is good. Skips very long certificates, and certificates with an
   * extra member that has no canonical form.
   */
  add(certificate: DelegationCert): void;
};

/** A private copy of a certificate, its canonical text, and its bytes in a document. */
type Kept = { value: DelegationCert; canonical: Buffer; written?: WrittenCertificate };

/**
 * Maximum size in bytes of a stored certificate, three times the usual size. To store a certificate costs
 * several times as much as to parse it: 0.1 s for one of 120 kB with as many values as possible.
 */
const LONGEST_KEPT = 32 * 1024;

/**
 * Creates a memory that evicts the least recently used certificates beyond `maxBytes`. This limit counts the
 * canonical text, the original bytes, the texts of the values, and the values themselves. There may be one
 * value for every two or three bytes. All of these are copies, so that the memory does not retain the
 * document they were read from.
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
  /** Canonical bytes of certificates that are frozen and so never change. */
  const byIdentity = new WeakMap<DelegationCert, Buffer>();
  /** The bytes of the document from which a value was parsed. */
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
    // If the caller changed the certificate after decoding, the verified certificate is not the one in these
    // bytes.
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
        // Another certificate with the same start may have replaced this entry, and may since be evicted.
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

/** A certificate from a document is stored twice: as parsed and as decoded. */
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

/**
 * Certificates whose own signature was found good, so that it need not be checked again. Does not know about
 * time, revocation or constraints.
 */
export type CertificateMemory = {
  /** Returns whether exactly these signed bytes were found good with exactly this signature. */
  has(key: string): boolean;
  add(key: string): void;
  /** The recently used certificates, which are recognized without computing their hash. */
  recent?: RecentCertificates;
};

const DEFAULT_MAX = 100_000;
const DEFAULT_RECENT_BYTES = 48 * 1024 * 1024;

/**
 * Creates a memory that evicts the least recently used beyond `max` certificates, at about 200 bytes each. In
 * addition, it stores the most recently used certificates completely, within `recentBytes`. The default is
 * enough for about 1,400 of them.
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
 * Returns SHA-256 over signed bytes and signature, as base64. The signed bytes include the issuer's key.
 * Base64 never contains `.`, so the hashed parts cannot be split in another way.
 */
export function memoryKey(signedBytes: Uint8Array, { ed25519, ml_dsa_65 }: HybridSignature): string {
  return createHash("sha256").update(signedBytes).update(`.${ed25519}.${ml_dsa_65}`, "utf8").digest("base64");
}

/** Measured memory in bytes of a number or a text, of a list or an object, and of a name in an object. */
const [LEAF_BYTES, COLLECTION_BYTES, NAME_BYTES] = [40, 240, 120];

/**
 * Returns about how many bytes a value uses in memory, including all nested values, without the bytes of its
 * texts. For `[0],[0],…` this is many times the size of the JSON. Code that stores untrusted values must
 * count this.
 */
export function structureBytes(value: unknown): number {
  if (typeof value !== "object" || value === null) return LEAF_BYTES;
  const members = Object.values(value);
  const names = Array.isArray(value) ? 0 : members.length * NAME_BYTES;
  return members.reduce((bytes: number, member) => bytes + structureBytes(member), COLLECTION_BYTES + names);
}
