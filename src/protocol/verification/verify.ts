import type { ProofBundle } from "../documents/proof_bundle.ts";
import { ProtocolError } from "../encoding/errors.ts";
import { reasonOf, statusOf } from "../violations.ts";
import { NOT_REVOKED_RULE } from "./certificate_rules.ts";
import type { Evidence, Verification, VerifyOptions } from "./evidence.ts";
import { askStore, checkConstraints, checkSignatures, lookUpRevocation, spendChallenge } from "./lookups.ts";
import { evaluateRules, type Findings } from "./rules.ts";
import { effectiveScope, orderSteps } from "./steps.ts";

export { type CertificateMemory, createCertificateMemory } from "../documents/certificate_memory.ts";
export type { ChallengeStore, Check, RevocationLookup, Verification, VerifyOptions } from "./evidence.ts";

/**
 * Verifies a decoded proof bundle (wire format §8): an ordered list of rules, of which the first that does
 * not hold is the answer. Each is evaluated once. What costs something is looked up only where its rule is
 * reached, so a malformed bundle costs no signature work, and a hostile one at most nine hybrid signature
 * checks.
 *
 * Throws `ProtocolError` `invalid_integer` when `now` is not a safe integer; rejects when the store, a
 * counter or the crypto library breaks.
 */
export async function verifyBundle(bundle: ProofBundle, options: VerifyOptions): Promise<Verification> {
  if (!Number.isSafeInteger(options.now)) {
    throw new ProtocolError("invalid_integer", "now is not in Unix seconds");
  }
  const evidence: Evidence = { bundle, options };
  const findings = evaluateRules(orderSteps(evidence));
  await askStore(findings, evidence);
  await checkSignatures(findings, evidence);
  await lookUpRevocation(findings, evidence);
  await spendChallenge(findings, evidence);
  await checkConstraints(findings, evidence);
  return conclude(findings, evidence);
}

function conclude(findings: Findings, { bundle, options }: Evidence): Verification {
  const { delegations, agent_id } = bundle;
  const consulted = options.revocation === undefined ? [] : findings.consulted(NOT_REVOKED_RULE);
  const common = {
    genuine: findings.isSound(),
    consulted: consulted.map(({ certificate: index = 0 }) => delegations[index]?.cert_id ?? ""),
  };
  const parties = { human_id: delegations.at(-1)?.issuer_id ?? "", agent_id };
  const violation = findings.first();
  if (violation === undefined) {
    const granted_scope = effectiveScope(delegations);
    return {
      valid: true,
      ...parties,
      granted_scope,
      identity_status: "authorized_agent",
      ...common,
      checks: findings.checks,
    };
  }
  return {
    valid: false,
    ...(violation.code === "expired" || violation.code === "revoked" ? parties : {}),
    identity_status: statusOf(violation),
    error_reason: reasonOf(violation),
    violation,
    ...common,
    checks: findings.checks,
  };
}
