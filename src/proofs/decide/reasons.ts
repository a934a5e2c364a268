import type { Check } from "../../protocol/verification/evidence.ts";
import { EVIDENCE_RULES } from "../../protocol/verification/rule_order.ts";
import type { RuleKind } from "../../protocol/verification/rules.ts";
import type { IdentityStatus, PermissionCode } from "../../protocol/violations.ts";

/** A decision's value (specification §2). */
export type Decision = "allow" | "deny" | "indeterminate";

type ReasonRow = {
  decision: Decision;
  /** The protocol's status for the proof (wire format §8). */
  status: IdentityStatus;
  /** Name of the failed rule, as it appears in `checks`. Absent for `allow`. */
  rule?: PermissionRule;
  /** The protocol's violation that leads to this reason. Absent if only this service defines the reason. */
  violation?: PermissionCode;
  /** The protocol's sentence, if only the deciding statement can find this reason (wire format §8). */
  words?: string;
};

/** The permission rules of the protocol and of this service, in the order of evaluation. */
const PERMISSIONS = [
  "root_trusted",
  "principal_accepted",
  "not_expired",
  "already_valid",
  "not_revoked",
  "delegation_right",
  "constraints",
  "required_scope",
  "within_ceiling",
] as const;
/** A permission rule that can fail. */
export type PermissionRule = (typeof PERMISSIONS)[number];

/**
 * All reasons of decisions, from the pure rules and from stored state. The set is closed. To add a reason,
 * add its row here. The compiler then requires its two texts in `console/texts/decisions.ts`, and the values
 * that `console/elements/decisions.ts` shows for it. A test requires its entry in `docs/api.md`.
 */
export const REASONS = {
  authorized: { decision: "allow", status: "authorized_agent" },
  delegation_revoked: {
    decision: "deny",
    status: "revoked",
    rule: "not_revoked",
    violation: "revoked",
    words: "delegation certificate has been revoked",
  },
  delegation_expired: { decision: "deny", status: "expired", rule: "not_expired", violation: "expired" },
  not_yet_valid: { decision: "deny", status: "invalid", rule: "already_valid", violation: "not_yet_valid" },
  not_delegated: {
    decision: "deny",
    status: "scope_denied",
    rule: "required_scope",
    violation: "scope_denied",
  },
  untrusted_root: { decision: "deny", status: "invalid", rule: "root_trusted" },
  principal_not_accepted: { decision: "deny", status: "invalid", rule: "principal_accepted" },
  constraint_denied: {
    decision: "deny",
    status: "constraint_denied",
    rule: "constraints",
    violation: "constraint_denied",
  },
  constraint_unverifiable: {
    decision: "deny",
    status: "constraint_unverifiable",
    rule: "constraints",
    violation: "constraint_unverifiable",
  },
  constraint_unknown: {
    decision: "deny",
    status: "constraint_unknown",
    rule: "constraints",
    violation: "constraint_unknown",
  },
  delegation_not_authorized: {
    decision: "deny",
    status: "delegation_not_authorized",
    rule: "delegation_right",
    violation: "delegation_not_authorized",
  },
  ceiling_exceeded: { decision: "deny", status: "invalid", rule: "within_ceiling" },
  revocation_state_unavailable: {
    decision: "indeterminate",
    status: "invalid",
    rule: "not_revoked",
    violation: "revocation_error",
    words: "revocation_error: revocation state is not available",
  },
} as const satisfies Record<string, ReasonRow>;

/** A reason of a decision. */
export type Reason = keyof typeof REASONS;
type ReasonOf<D extends Decision> = {
  [R in Reason]: (typeof REASONS)[R]["decision"] extends D ? R : never;
}[Reason];
/** A reason of a denial. */
export type DenyReason = ReasonOf<"deny">;
/** A reason of a denial or of an indeterminate decision. */
export type RefusingReason = ReasonOf<"deny" | "indeterminate">;

const ALL_REASONS = Object.keys(REASONS) as Reason[];
const reasonsOf = <D extends Decision>(decision: D) =>
  ALL_REASONS.filter((reason): reason is ReasonOf<D> => REASONS[reason].decision === decision);

/** The reasons of each decision, in the order of the table. */
export const decisionReasons = {
  allow: reasonsOf("allow"),
  deny: reasonsOf("deny"),
  indeterminate: reasonsOf("indeterminate"),
} as const satisfies Record<Decision, readonly Reason[]>;

/** Returns why a proof was not allowed: the protocol's words, or the reason itself if there are none. */
export function protocolWords(errorReason: string): string {
  return rowOf(errorReason)?.words ?? errorReason;
}

/** Returns the protocol's status for a decided proof. */
export function identityStatusOf(reason: Reason): IdentityStatus {
  return rowOf(reason)?.status ?? "invalid";
}

/** Returns a reason's row in the table, or `undefined` for a reason that only a different release knows. */
function rowOf(reason: string): ReasonRow | undefined {
  return Object.hasOwn(REASONS, reason) ? REASONS[reason as Reason] : undefined;
}

type DeniedCode = Exclude<PermissionCode, "revoked" | "revocation_error">;

/** The reason for each violation of the protocol. Only the deciding statement determines revocation. */
export const DENIALS = {
  expired: "delegation_expired",
  not_yet_valid: "not_yet_valid",
  scope_denied: "not_delegated",
  constraint_denied: "constraint_denied",
  constraint_unverifiable: "constraint_unverifiable",
  constraint_unknown: "constraint_unknown",
  delegation_not_authorized: "delegation_not_authorized",
} as const satisfies { [C in DeniedCode]: ReasonFor<C> };
type ReasonFor<C> = {
  [R in DenyReason]: (typeof REASONS)[R] extends { violation: C } ? R : never;
}[DenyReason];

/** A rule of a decision, and the reasons that mean that the rule failed. */
export type DecisionRule = { name: string; kind: RuleKind; reasons: readonly Reason[] };

/**
 * Every rule of a decision, in the order of evaluation. The rules about evidence come first, because a proof
 * that is not genuine gets no decision. The first permission rule that fails determines the reason.
 */
export const decisionRules: readonly DecisionRule[] = [
  ...EVIDENCE_RULES.map((name): DecisionRule => ({ name, kind: "evidence", reasons: [] })),
  ...PERMISSIONS.map(
    (name): DecisionRule => ({
      name,
      kind: "permission",
      reasons: ALL_REASONS.filter((reason) => rowOf(reason)?.rule === name),
    }),
  ),
];

/**
 * Returns each rule's outcome for a decision's reason. Without a reason, no rule was reached. If the reason
 * belongs to no rule, such as `authorized`, all rules passed.
 */
export function explainDecision(reason: string | undefined): Check[] {
  const failed = decisionRules.findIndex(({ reasons }) => reasons.some((each) => each === reason));
  const end = reason === undefined ? -1 : failed === -1 ? decisionRules.length : failed;
  return decisionRules.map(({ name }, at) => ({
    name,
    outcome: at < end ? "passed" : at === end ? "failed" : "not_reached",
  }));
}
