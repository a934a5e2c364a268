import type { ConstraintContext } from "../constraints/evaluate_constraints.ts";
import type { DelegationCert } from "../documents/certificate.ts";
import type { CertificateMemory } from "../documents/certificate_memory.ts";
import type { ProofBundle } from "../documents/proof_bundle.ts";
import type { Backend } from "../keys/hybrid.ts";
import type { IdentityStatus, Violation } from "../violations.ts";

/**
 * Where challenges are kept that were issued and not yet answered. Both questions take the challenge in
 * base64.
 */
export type ChallengeStore = {
  /** Whether the challenge is open. Does not spend it. */
  isKnown(challenge: string): boolean | Promise<boolean>;
  /** Spends the challenge atomically; whether it was open until now. */
  spend(challenge: string): boolean | Promise<boolean>;
};

/** What the verifier remembers of a stream of proofs. */
export type StreamContext = {
  /** Base64 of 32 bytes. */
  stream_id: string;
  /** Number of the last turn it accepted, 0 before the first. */
  last_seen_seq: number;
};

/** Whether a certificate is revoked. Throwing means that it cannot be known, which refuses the bundle. */
export type RevocationLookup = (certificate: DelegationCert) => boolean | Promise<boolean>;

/** What a bundle is verified against. */
export type VerifyOptions = {
  /** Unix seconds. */
  now: number;
  /** A scope that the chain's effective scope must contain; a wildcard never is in it. */
  required_scope?: string | undefined;
  /** The verifier's own value, base64 of 32 bytes. */
  session_context?: string | undefined;
  stream?: StreamContext | undefined;
  context?: ConstraintContext | undefined;
  /**
   * `deferred`: the caller knows the challenge and spends it itself when the proof is genuine. Left out: none
   * is in play.
   */
  challengeStore?: ChallengeStore | "deferred" | undefined;
  /**
   * `deferred`: the caller asks about {@link Verification.consulted} itself. Left out: revocation is not
   * looked at.
   */
  revocation?: RevocationLookup | "deferred" | undefined;
  certificateMemory?: CertificateMemory | undefined;
  /** For comparison; native when left out. */
  backend?: Backend | undefined;
};

/** What the rules look at. */
export type Evidence = {
  bundle: ProofBundle;
  options: VerifyOptions;
};

/** The outcome of one named rule. */
export type Check = {
  name: string;
  outcome: "passed" | "failed" | "not_reached";
};

/** The answer about one bundle (wire format §8). */
export type Verification = {
  valid: boolean;
  /** Root issuer of the chain; with success, expiry and revocation only. */
  human_id?: string;
  agent_id?: string;
  /** Effective scope, sorted by code point; with success only. */
  granted_scope?: string[];
  identity_status: IdentityStatus;
  /** In the protocol's words; absent with success. */
  error_reason?: string;
  /** The first rule that does not hold, in the order of §8. */
  violation?: Violation;
  /** Every rule in order. Listed only when asked for: most callers do not. */
  checks(): Check[];
  /**
   * Whether the evidence is good as a whole: well-formed, linked, fresh, and every signature verified, the
   * challenge's included. A genuine proof spends its challenge even when it is denied; any other must not.
   */
  genuine: boolean;
  /**
   * Ids of the certificates whose revocation is looked at before the first violation, leaf first. With
   * deferred revocation: if one of them is revoked, that is the answer, whatever this one says.
   */
  consulted: string[];
};
