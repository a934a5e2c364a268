import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { LRUCache } from "lru-cache";
import { ProtocolError } from "../encoding/errors.ts";
import type { JsonMemo, JsonValue } from "../encoding/json.ts";
import type { HybridSignature } from "../keys/hybrid.ts";
import { certificate, certificateText, type DelegationCert, sourceOf } from "./certificate.ts";
import { findWritten, readWritten, type WrittenCertificate } from "./written_certificate.ts";

/**
 * Certificates whose own signature was found good lately, kept whole. In a document they are recognised by
 * their bytes, and neither parsed nor decoded again; elsewhere, to recognise one takes no hash and no
 * canonical text.
 */
export type RecentCertificates = JsonMemo & {
  /**
   * Canonical JSON of a certificate, its signature included, in UTF-8, if one is kept that equals it in every
   * field; else nothing. Not to be written to.
   */
  bytesOf(certificate: DelegationCert): Buffer | undefined;
  /**
   * Keeps a certificate whose signature is good. One that is very long is skipped, and one with a further
   * member that has no canonical form.
   */
  add(certificate: DelegationCert): void;
};

/** A certificate as a value of nobody else's, its canonical text, and how it stood in a document. */
type Kept = { value: DelegationCert; canonical: Buffer; written?: WrittenCertificate };

/**
 * Three times what most certificates have. To take one in costs several times what reading it does: of one of
 * 120 kB with as many values as fit, a tenth of a second.
 */
const LONGEST_KEPT = 32 * 1024;

/**
 * Forgets the least recently used beyond `maxBytes`, of what they take in memory: the canonical text, the
 * bytes that it was written as, the text of the values in it, and the values, of which there may be one for
 * every two or three bytes. All are copies, so that what is kept does not keep the document it was in.
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
  /** Those that nobody can change are the same for ever. */
  const byIdentity = new WeakMap<DelegationCert, Buffer>();
  /** Where the values of a document were written. */
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
    // Whoever changed a certificate after it was decoded had another one found good than the one written.
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
        // Another that begins alike may have taken its place, or taken it and been forgotten.
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

/** What was read of a document is there twice: as the parser gave it, and decoded. */
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

/** Measured, in bytes of memory: a number or a text, a list or an object, and a name in an object. */
const [LEAF_BYTES, COLLECTION_BYTES, NAME_BYTES] = [40, 240, 120];

/**
 * About how many bytes a value takes in memory, with all that is in it, beside the bytes of its texts: of
 * `[0],[0],…` many times what is written. Whoever keeps what strangers wrote must count it.
 */
export function structureBytes(value: unknown): number {
  if (typeof value !== "object" || value === null) return LEAF_BYTES;
  const members = Object.values(value);
  const names = Array.isArray(value) ? 0 : members.length * NAME_BYTES;
  return members.reduce((bytes: number, member) => bytes + structureBytes(member), COLLECTION_BYTES + names);
}
