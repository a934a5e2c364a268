import type { ProofBundle } from "../documents/proof_bundle.ts";
import { ProtocolError } from "../encoding/errors.ts";
import { reasonOf, statusOf } from "../violations.ts";
import { NOT_REVOKED_RULE } from "./certificate_rules.ts";
import type { Evidence, Verification, VerifyOptions } from "./evidence.ts";
import { firstViolation, isSound, listChecks } from "./findings.ts";
import { askStore, checkSignatures, holdConstraints, lookUpRevocation, spendChallenge } from "./gathering.ts";
import { effectiveScope, orderSteps, type Step } from "./steps.ts";

export { type CertificateMemory, createCertificateMemory } from "./certificate_memory.ts";
export type { ChallengeStore, Check, RevocationLookup, Verification, VerifyOptions } from "./evidence.ts";

/**
 * Verifies a decoded proof bundle (wire format §8): an ordered list of pure rules, of which the first that
 * does not hold is the answer. Facts that cost something are gathered only where a rule is reached that asks
 * for them, so that a malformed bundle costs no signature work, and a hostile one at most nine hybrid
 * signature checks.
 *
 * Throws `ProtocolError` `invalid_integer` when `now` is no safe integer; rejects when the store, a counter
 * or the crypto library breaks
 */
export async function verifyBundle(bundle: ProofBundle, options: VerifyOptions): Promise<Verification> {
  if (!Number.isSafeInteger(options.now)) {
    throw new ProtocolError("invalid_integer", "now is not in Unix seconds");
  }
  const evidence: Evidence = {
    bundle,
    options,
    facts: { signatureFaults: [], revocation: [], refusals: [] },
  };
  const steps = orderSteps(evidence);
  await askStore(steps, evidence);
  await checkSignatures(steps, evidence);
  await lookUpRevocation(steps, evidence);
  await spendChallenge(steps, evidence);
  await holdConstraints(steps, evidence);
  return conclude(steps, evidence, isSound(steps));
}

function conclude(steps: readonly Step[], { bundle, options }: Evidence, genuine: boolean): Verification {
  const finding = firstViolation(steps);
  const end = finding?.at ?? steps.length;
  const consulted = steps.filter(({ name }, at) => name === NOT_REVOKED_RULE.name && at <= end);
  const common = {
    checks: listChecks(steps, end, genuine),
    genuine,
    consulted: options.revocation === undefined ? [] : consulted.map((step) => certificateId(bundle, step)),
  };
  const parties = { human_id: bundle.delegations.at(-1)?.issuer_id ?? "", agent_id: bundle.agent_id };
  if (finding === undefined) {
    const granted_scope = effectiveScope(bundle.delegations);
    return { valid: true, ...parties, granted_scope, identity_status: "authorized_agent", ...common };
  }
  const { violation } = finding;
  return {
    valid: false,
    ...(violation.code === "expired" || violation.code === "revoked" ? parties : {}),
    identity_status: statusOf(violation),
    error_reason: reasonOf(violation),
    violation,
    ...common,
  };
}

function certificateId(bundle: ProofBundle, { certificate: index = 0 }: Step): string {
  return bundle.delegations[index]?.cert_id ?? "";
}
