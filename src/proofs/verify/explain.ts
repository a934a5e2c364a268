import type { Check } from "../../protocol/verification/evidence.ts";
import { PERMISSION_RULES } from "../../protocol/verification/steps.ts";

/** Rules about whose authority it is. */
const TRUST_RULES = ["root_trusted", "principal_accepted"];

/** The rule behind a decision of stored state. */
const DECIDED_BY: Record<string, string> = {
  untrusted_root: "root_trusted",
  principal_not_accepted: "principal_accepted",
  delegation_revoked: "not_revoked",
  revocation_state_unavailable: "not_revoked",
  ceiling_exceeded: "within_ceiling",
};

/**
 * Every rule as passed, failed or not reached, for the decision that was made: the protocol's own, and around
 * them those of this service, `root_trusted` and `principal_accepted` before all that is about permission and
 * `within_ceiling` after it.
 */
export function explainDecision(checks: readonly Check[], reason: string): Check[] {
  const failed = DECIDED_BY[reason];
  const permissions = [...TRUST_RULES, ...PERMISSION_RULES, "within_ceiling"];
  const end = failed === undefined ? firstFailed(checks, permissions) : permissions.indexOf(failed);
  const all: Check[] = [
    ...TRUST_RULES.map((name): Check => ({ name, outcome: "passed" })),
    ...checks,
    { name: "within_ceiling", outcome: "passed" },
  ];
  return all.map(({ name, outcome }) => {
    const at = permissions.indexOf(name);
    if (at === -1) return { name, outcome };
    return { name, outcome: at < end ? "passed" : at === end ? "failed" : "not_reached" };
  });
}

function firstFailed(checks: readonly Check[], permissions: readonly string[]): number {
  const failed = checks.find(({ name, outcome }) => outcome === "failed" && permissions.includes(name));
  return failed === undefined ? permissions.length : permissions.indexOf(failed.name);
}
