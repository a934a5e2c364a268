import type { DelegationCert } from "../documents/certificate.ts";
import { checkBase64 } from "../encoding/base64.ts";
import { ProtocolError } from "../encoding/errors.ts";
import type { Violation, ViolationCode } from "../violations.ts";
import type { Evidence } from "./evidence.ts";

/** Whether a rule asks if the evidence is good, or if good evidence is allowed what it asks for. */
export type RuleKind = "evidence" | "permission";

/** One named rule about the bundle as a whole. Pure. */
export type BundleRule = {
  name: string;
  kind: RuleKind;
  /**
   * Whether it looks at facts that are gathered on the way, so that its answer may change; any other answers
   * once.
   */
  looksAtFacts?: true;
  check(evidence: Evidence): Violation | undefined;
};

/** One named rule about each certificate, with the one that issued it; the root has none. Pure. */
export type CertificateRule = {
  name: string;
  kind: RuleKind;
  /** As in {@link BundleRule}. */
  looksAtFacts?: true;
  check(evidence: Evidence, position: CertificatePosition): Violation | undefined;
};

/** A certificate where it stands in its chain. */
export type CertificatePosition = {
  index: number;
  certificate: DelegationCert;
  parent: DelegationCert | undefined;
};

/** A violation, of the bundle or of the certificate at a position. */
export function violation(code: ViolationCode, detail: string, certificate?: number): Violation {
  return certificate === undefined ? { code, detail } : { code, detail, certificate };
}

/** Whether `text` is canonical base64 of `length` bytes. */
export function hasBytes(text: string, length: number): boolean {
  try {
    checkBase64(text, length);
    return true;
  } catch (error) {
    if (error instanceof ProtocolError) return false;
    throw error;
  }
}

/**
 * Whether `text` has the length and the padding of base64 of `length` bytes: enough where its content is held
 * against other text.
 */
export function hasEncodedLength(text: string, length: number): boolean {
  const padding = (3 - (length % 3)) % 3;
  const isPadded = text.endsWith("=".repeat(padding)) && !text.endsWith("=".repeat(padding + 1));
  return text.length === Math.ceil(length / 3) * 4 && isPadded;
}
