import type { Check } from "../../protocol/verification/evidence.ts";
import type { RuleKind } from "../../protocol/verification/rules.ts";
import { EVIDENCE_RULES, PERMISSION_RULES } from "../../protocol/verification/steps.ts";
import type { decisionReasons } from "./verdict.ts";

/** A reason of a decision that allows nothing. */
export type RefusingReason = (typeof decisionReasons)["deny" | "indeterminate"][number];

/** A rule of a decision, and the reasons of the decisions in which it did not hold. */
export type DecisionRule = { name: string; kind: RuleKind; reasons: readonly RefusingReason[] };

/** The protocol's rules about what a genuine proof is allowed, and those of this service around them. */
const PERMISSIONS = ["root_trusted", "principal_accepted", ...PERMISSION_RULES, "within_ceiling"];

/** Which rule gives which reason; one of the evidence gives none, because without it there is no decision. */
const REASONS: Record<string, readonly RefusingReason[]> = {
  root_trusted: ["untrusted_root"],
  principal_accepted: ["principal_not_accepted"],
  not_expired: ["delegation_expired"],
  already_valid: ["not_yet_valid"],
  not_revoked: ["delegation_revoked", "revocation_state_unavailable"],
  delegation_right: ["delegation_not_authorized"],
  constraints: ["constraint_denied", "constraint_unverifiable", "constraint_unknown"],
  required_scope: ["not_delegated"],
  within_ceiling: ["ceiling_exceeded"],
};

/**
 * Every rule of a decision in the order in which they are judged: whether the proof is genuine, without which
 * there is no decision; then whose authority it is, and what that allows. The first that does not hold is the
 * decision's reason.
 */
export const decisionRules: readonly DecisionRule[] = [
  ...EVIDENCE_RULES.map((name): DecisionRule => ({ name, kind: "evidence", reasons: [] })),
  ...PERMISSIONS.map((name): DecisionRule => ({ name, kind: "permission", reasons: REASONS[name] ?? [] })),
];

/**
 * Each rule as passed, failed or not reached, as a decision's reason says it. `undefined` is for a proof that
 * there is no decision on: then nothing was reached. Of a reason that no rule gives, such as `authorized`,
 * all have passed.
 */
export function explainDecision(reason: string | undefined): Check[] {
  const failed = decisionRules.findIndex(({ reasons }) => reasons.some((each) => each === reason));
  const end = reason === undefined ? -1 : failed === -1 ? decisionRules.length : failed;
  return decisionRules.map(({ name }, at) => ({
    name,
    outcome: at < end ? "passed" : at === end ? "failed" : "not_reached",
  }));
}
