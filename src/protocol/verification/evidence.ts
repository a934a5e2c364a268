import type { ConstraintContext, FailedConstraint } from "../constraints/evaluate_constraints.ts";
import type { DelegationCert } from "../documents/certificate.ts";
import type { CertificateMemory } from "../documents/certificate_memory.ts";
import type { ProofBundle } from "../documents/proof_bundle.ts";
import type { Backend } from "../keys/hybrid.ts";
import type { IdentityStatus, Violation } from "../violations.ts";

/** Stores issued challenges until a proof spends them. Both methods expect the challenge in base64. */
export type ChallengeStore = {
  /** Returns whether the challenge is open. Does not spend it. */
  isKnown(challenge: string): boolean | Promise<boolean>;
  /** Spends the challenge atomically. Returns whether the challenge was open until this call. */
  spend(challenge: string): boolean | Promise<boolean>;
};

/** The verifier's state of one stream of proofs. */
export type StreamContext = {
  /** Base64 of 32 bytes. */
  stream_id: string;
  /** Sequence number of the last accepted proof, or 0 before the first proof. */
  last_seen_seq: number;
};

/** Returns whether a certificate is revoked. If it throws, verification refuses the bundle. */
export type RevocationLookup = (certificate: DelegationCert) => boolean | Promise<boolean>;

/** Values and services that verification uses. */
export type VerifyOptions = {
  /** Unix seconds. */
  now: number;
  /** A scope that the chain's effective scope must contain. The effective scope never contains a wildcard. */
  required_scope?: string | undefined;
  /** The verifier's own session context, base64 of 32 bytes. */
  session_context?: string | undefined;
  stream?: StreamContext | undefined;
  context?: ConstraintContext | undefined;
  /**
   * The store of issued challenges. With `deferred`, the caller has already checked that the challenge is
   * open, and spends it if the proof is genuine. If absent, verification neither looks up nor spends one.
   */
  challengeStore?: ChallengeStore | "deferred" | undefined;
  /**
   * The lookup of revoked certificates. With `deferred`, the caller checks whether the certificates in {@link
   * Verification.consulted} are revoked. If absent, nothing checks revocation.
   */
  revocation?: RevocationLookup | "deferred" | undefined;
  certificateMemory?: CertificateMemory | undefined;
  /** Selects the implementation of the algorithms. Defaults to native. Only tests set it. */
  backend?: Backend | undefined;
};

/** The input of every rule. */
export type Evidence = {
  bundle: ProofBundle;
  options: VerifyOptions;
};

/** The outcome of one named rule. */
export type Check = {
  name: string;
  outcome: "passed" | "failed" | "not_reached";
};

/** The result of verifying one bundle (wire format §8). */
export type Verification = {
  valid: boolean;
  /** Id of the chain's root issuer. Present on success, and when the violation is `expired` or `revoked`. */
  human_id?: string;
  agent_id?: string;
  /** Effective scope of the chain, sorted by code point. Present on success only. */
  granted_scope?: string[];
  identity_status: IdentityStatus;
  /** The violation in the protocol's wording. Absent on success. */
  error_reason?: string;
  /** The first rule that does not hold, in the order of §8. */
  violation?: Violation;
  /** The constraint that failed, if the violation is about one. */
  failed_constraint?: FailedConstraint;
  /** Returns every rule in order, with its outcome. */
  checks(): Check[];
  /**
   * Whether all evidence is good: the bundle is well-formed, linked and fresh, and every signature is valid.
   * A genuine proof spends its challenge even when it is denied. A proof that is not genuine must not spend
   * its challenge.
   */
  genuine: boolean;
  /**
   * Ids of the certificates whose revocation matters, leaf first, up to and including the first violation. If
   * the caller checks revocation and one of them is revoked, the answer is "revoked", whatever this result
   * contains.
   */
  consulted: string[];
};
