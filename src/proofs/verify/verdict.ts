import { ApiError, type ErrorCode } from "../../errors.ts";
import type { ProofBundle } from "../../protocol/documents/proof_bundle.ts";
import type { Verification } from "../../protocol/verification/evidence.ts";
import type { PermissionCode } from "../../protocol/violations.ts";
import type { OpenChallenge } from "./check_challenge.ts";
import type { Root } from "./trusted_roots.ts";

/** A genuine proof that the rules have judged. */
export type Judged = {
  bundle: ProofBundle;
  challenge: OpenChallenge;
  now: Date;
  verdict: Exclude<Verdict, { kind: "refuse" }>;
  /** Why it is not allowed, in the protocol's words where its rules decided; null when it is. */
  errorReason: string | null;
  grantedScope: string[];
  /** The account whose root key begins the chain; null when that is no account's. */
  rootAccountId: string | null;
  /** Certificates whose stored state has a say before the verdict does. */
  consulted: { accountId: string; certId: string }[];
};

/**
 * Judges what was found of a proof. A root that nobody here vouches for, or that is not accepted, is the
 * answer before all else; then the state of no certificate is read. Throws for a proof that is not genuine.
 */
export function judge(proof: {
  bundle: ProofBundle;
  challenge: OpenChallenge;
  now: Date;
  root: Root | undefined;
  verification: Verification;
  isAccepted: boolean;
}): Judged {
  const { bundle, challenge, now, root, verification, isAccepted } = proof;
  const found = verdictOf(verification);
  if (found.kind === "refuse") throw new ApiError(found.code, verification.error_reason);
  const common = {
    bundle,
    challenge,
    now,
    grantedScope: verification.granted_scope ?? [],
    rootAccountId: root?.accountId ?? null,
  };
  if (root === undefined || !isAccepted) {
    const reason = root === undefined ? "untrusted_root" : "principal_not_accepted";
    return { ...common, verdict: { kind: "deny", reason }, errorReason: reason, consulted: [] };
  }
  return {
    ...common,
    verdict: found,
    errorReason: verification.error_reason ?? null,
    consulted: verification.consulted.map((certId) => ({ accountId: root.accountId, certId })),
  };
}

/** What the protocol's first violation means to a verify call. */
export type Verdict =
  | { kind: "allow"; reason: "authorized" }
  | { kind: "deny"; reason: DenyReason }
  | {
      kind: "refuse";
      code: Extract<ErrorCode, "invalid_proof" | "invalid_challenge" | "session_context_mismatch">;
    };

/**
 * Every reason of a decision: of the pure rules, and of stored state as the deciding statement reads it.
 * Closed.
 */
export const decisionReasons = {
  allow: ["authorized"],
  deny: [
    "delegation_revoked",
    "delegation_expired",
    "not_yet_valid",
    "not_delegated",
    "untrusted_root",
    "principal_not_accepted",
    "constraint_denied",
    "constraint_unverifiable",
    "constraint_unknown",
    "delegation_not_authorized",
    "ceiling_exceeded",
  ],
  indeterminate: ["revocation_state_unavailable"],
} as const;

/** A reason of a denial. */
export type DenyReason = (typeof decisionReasons.deny)[number];

/** What a violation of a permission rule is called here. Revocation is for the deciding statement to say. */
const denials: Record<Exclude<PermissionCode, "revoked" | "revocation_error">, DenyReason> = {
  expired: "delegation_expired",
  not_yet_valid: "not_yet_valid",
  scope_denied: "not_delegated",
  constraint_denied: "constraint_denied",
  constraint_unverifiable: "constraint_unverifiable",
  constraint_unknown: "constraint_unknown",
  delegation_not_authorized: "delegation_not_authorized",
};

const contextFaults = new Set([
  "session_context_mismatch",
  "missing_session_context",
  "session_context_unverifiable",
]);

/**
 * Maps the protocol's outcome: a genuine proof that violates a rule is a denial, and spends its challenge; a
 * forged, malformed or stale one is a refused call, and spends nothing.
 */
export function verdictOf(outcome: { violation?: { code: string } | undefined; genuine: boolean }): Verdict {
  const { violation, genuine } = outcome;
  if (violation === undefined) return { kind: "allow", reason: "authorized" };
  const reason: DenyReason | undefined = denials[violation.code as keyof typeof denials];
  if (genuine && reason !== undefined) return { kind: "deny", reason };
  if (violation.code === "unknown_challenge") return { kind: "refuse", code: "invalid_challenge" };
  if (contextFaults.has(violation.code)) return { kind: "refuse", code: "session_context_mismatch" };
  return { kind: "refuse", code: "invalid_proof" };
}

/**
 * Decisions of stored state that the protocol has words for; it would have said them, had it looked itself
 * (wire format §8).
 */
const storedStateWords: Record<string, string> = {
  delegation_revoked: "delegation certificate has been revoked",
  revocation_state_unavailable: "revocation_error: revocation state is not available",
};

/** Why a proof was not allowed, in the protocol's words where it has some; else the reason itself. */
export function protocolWords(reason: string): string {
  return storedStateWords[reason] ?? reason;
}

/** The protocol's word for the state of a decided proof (wire format §8). */
export const identityStatusOf: Record<string, string> = {
  authorized: "authorized_agent",
  delegation_revoked: "revoked",
  delegation_expired: "expired",
  not_delegated: "scope_denied",
  constraint_denied: "constraint_denied",
  constraint_unverifiable: "constraint_unverifiable",
  constraint_unknown: "constraint_unknown",
  delegation_not_authorized: "delegation_not_authorized",
};
