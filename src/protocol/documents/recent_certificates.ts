import { isDeepStrictEqual } from "node:util";
import { LRUCache } from "lru-cache";
import { ProtocolError } from "../encoding/errors.ts";
import { certificateText, type DelegationCert } from "./certificate.ts";

/**
 * Certificates whose own signature was found good lately, kept whole: to recognise one takes no hash and no
 * canonical text.
 */
export type RecentCertificates = {
  /**
   * Canonical JSON of a certificate, its signature included, if one is kept that equals it in every field;
   * else nothing.
   */
  textOf(certificate: DelegationCert): string | undefined;
  /**
   * Keeps a certificate whose signature is good. A certificate with a further member that has no canonical
   * form is skipped.
   */
  add(certificate: DelegationCert): void;
};

/**
 * The value is what the text reads as: an equal certificate has this canonical text, and so these signed
 * bytes.
 */
type Kept = { text: string; value: unknown };

/**
 * Forgets the least recently used beyond `maxCharacters` of canonical text. Text and value are copies, so
 * that what is kept does not keep the document it was in; together they take about 2 bytes for each
 * character.
 */
export function createRecentCertificates(maxCharacters: number): RecentCertificates {
  const kept = new LRUCache<string, Kept>({
    maxSize: maxCharacters,
    sizeCalculation: ({ text }) => text.length,
  });
  return {
    textOf(certificate) {
      const found = kept.get(certificate.signature.ed25519);
      return found !== undefined && isDeepStrictEqual(found.value, certificate) ? found.text : undefined;
    },
    add(certificate) {
      const text = canonicalText(certificate);
      if (text === undefined) return;
      const value = JSON.parse(text) as DelegationCert;
      kept.set(value.signature.ed25519, { text, value });
    },
  };
}

function canonicalText(certificate: DelegationCert): string | undefined {
  try {
    return certificateText(certificate);
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}
