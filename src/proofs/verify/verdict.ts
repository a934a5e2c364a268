import type { ErrorCode } from "../../errors.ts";

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

const denials: Record<string, DenyReason> = {
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
  const reason = denials[violation.code];
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

/** The protocol's word for where a decided proof stands (wire format §8). */
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
