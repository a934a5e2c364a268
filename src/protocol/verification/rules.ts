import type { DelegationCert } from "../documents/certificate.ts";
import { checkBase64 } from "../encoding/base64.ts";
import { ProtocolError } from "../encoding/errors.ts";
import type { Violation, ViolationCode } from "../violations.ts";
import type { Evidence } from "./evidence.ts";

/** Whether a rule asks if the evidence is good, or if good evidence is allowed what it asks for. */
export type RuleKind = "evidence" | "permission";

/** A named rule. One without a check of its own is decided by what is looked up on the way (`lookups.ts`). */
export type Rule = { name: string; kind: RuleKind };

/** A rule about the bundle as a whole. Pure. */
export type BundleRule = Rule & {
  check?(evidence: Evidence): Violation | undefined;
};

/** A rule about each certificate, with the one that issued it; the root has none. Pure. */
export type CertificateRule = Rule & {
  check?(evidence: Evidence, position: CertificatePosition): Violation | undefined;
};

/** A rule applied to one bundle or to one certificate of it, in the order of wire format §8. */
export type Step = Rule & {
  /** Position in the chain, 0 for the leaf. */
  certificate?: number;
  check?: (() => Violation | undefined) | undefined;
};

/** A certificate and its place in its chain. */
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
 * Whether `text` has the length and the padding of base64 of `length` bytes: enough where its content is
 * compared with other text.
 */
export function hasEncodedLength(text: string, length: number): boolean {
  const padding = (3 - (length % 3)) % 3;
  const isPadded = text.endsWith("=".repeat(padding)) && !text.endsWith("=".repeat(padding + 1));
  return text.length === Math.ceil(length / 3) * 4 && isPadded;
}
