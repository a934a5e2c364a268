import { delegationSignBytes } from "./certificate.ts";
import { memoryKey } from "./certificate_memory.ts";
import { CONSTRAINTS_RULE, NOT_REVOKED_RULE, SIGNATURE_RULE } from "./certificate_rules.ts";
import { challengeSignBytes } from "./challenge.ts";
import { CHALLENGE_KNOWN_RULE } from "./challenge_rules.ts";
import { evaluateConstraints } from "./constraint_evaluation.ts";
import { ProtocolError } from "./errors.ts";
import { firstViolation, isSound, listChecks, reached } from "./findings.ts";
import { signatureFault } from "./hybrid.ts";
import type { ProofBundle } from "./proof_bundle.ts";
import type { Evidence, Verification, VerifyOptions } from "./verification.ts";
import { effectiveScope, orderSteps, type Step } from "./verification_rules.ts";
import { reasonOf, statusOf } from "./violations.ts";

export { type CertificateMemory, createCertificateMemory } from "./certificate_memory.ts";
export type { ChallengeStore, Check, RevocationLookup, Verification, VerifyOptions } from "./verification.ts";

/**
 * Verifies a decoded proof bundle (wire format §8): an ordered list of pure rules, of which the first that does not hold is the
 * answer. Facts that cost something are gathered only where a rule is reached that asks for them, so that a malformed bundle costs
 * no signature work, and a hostile one at most nine hybrid signature checks.
 *
 * @throws ProtocolError `invalid_integer` when `now` is no safe integer; rejects when the store, a counter or the crypto library breaks
 */
export async function verifyBundle(bundle: ProofBundle, options: VerifyOptions): Promise<Verification> {
  if (!Number.isSafeInteger(options.now))
    throw new ProtocolError("invalid_integer", "now is not in Unix seconds");
  const evidence: Evidence = {
    bundle,
    options,
    facts: { signatureFaults: [], revocation: [], refusals: [] },
  };
  const steps = orderSteps(evidence);
  await askStore(steps, evidence);
  const checked = await checkSignatures(steps, evidence);
  await lookUpRevocation(steps, evidence);
  await spendChallenge(steps, evidence, checked);
  await holdConstraints(steps, evidence);
  return conclude(steps, evidence, checked && isSound(steps));
}

async function askStore(steps: readonly Step[], { bundle, options, facts }: Evidence): Promise<void> {
  const store = options.challengeStore;
  if (store === undefined || store === "deferred" || reached(steps, CHALLENGE_KNOWN_RULE.name).length === 0)
    return;
  facts.challengeKnown = await store.isKnown(bundle.challenge);
}

/** Checks all signatures of a bundle that may be genuine, else those that the answer depends on. Whether it was all of them. */
async function checkSignatures(steps: readonly Step[], evidence: Evidence): Promise<boolean> {
  const all = isSound(steps);
  const wanted = all ? steps : reached(steps, SIGNATURE_RULE.name);
  const certificates = wanted
    .filter(({ name }) => name === SIGNATURE_RULE.name)
    .map(checkCertificateSignature);
  await Promise.all([...certificates, all ? checkChallengeSignature() : undefined]);
  return all;

  async function checkCertificateSignature({ certificate: index = 0 }: Step): Promise<void> {
    evidence.facts.signatureFaults[index] = await certificateFault(evidence, index);
  }

  async function checkChallengeSignature(): Promise<void> {
    const { bundle, facts, options } = evidence;
    facts.challengeFault = await faultOf(() =>
      signatureFault(bundle.agent_pub_key, challengeSignBytes(bundle), bundle.challenge_sig, options.backend),
    );
  }
}

async function certificateFault({ bundle, options }: Evidence, index: number): Promise<string | undefined> {
  const certificate = bundle.delegations[index];
  if (certificate === undefined) return undefined;
  return faultOf(async () => {
    const signed = delegationSignBytes(certificate);
    const key = options.certificateMemory && memoryKey(signed, certificate.signature);
    if (key !== undefined && options.certificateMemory?.has(key)) return undefined;
    const fault = await signatureFault(
      certificate.issuer_pub_key,
      signed,
      certificate.signature,
      options.backend,
    );
    if (fault === undefined && key !== undefined) options.certificateMemory?.add(key);
    return fault;
  });
}

/** A bundle that was not decoded strictly may hold what has no signed bytes; that is a bad signature and no broken call. */
async function faultOf(check: () => Promise<string | undefined>): Promise<string | undefined> {
  try {
    return await check();
  } catch (error) {
    if (error instanceof ProtocolError) return error.message;
    throw error;
  }
}

async function lookUpRevocation(steps: readonly Step[], { bundle, options, facts }: Evidence): Promise<void> {
  const lookup = options.revocation;
  if (lookup === undefined || lookup === "deferred") return;
  for (const { certificate: index = 0 } of reached(steps, NOT_REVOKED_RULE.name)) {
    const certificate = bundle.delegations[index];
    if (certificate === undefined) return;
    facts.revocation[index] = await stateOf(async () => lookup(certificate));
    if (facts.revocation[index] !== "good") return;
  }
}

async function stateOf(isRevoked: () => Promise<boolean>): Promise<"good" | "revoked" | "unavailable"> {
  try {
    return (await isRevoked()) ? "revoked" : "good";
  } catch {
    return "unavailable";
  }
}

async function spendChallenge(
  steps: readonly Step[],
  { bundle, options, facts }: Evidence,
  checked: boolean,
): Promise<void> {
  const store = options.challengeStore;
  if (store === undefined || store === "deferred" || !checked || !isSound(steps)) return;
  facts.challengeSpent = await store.spend(bundle.challenge);
}

async function holdConstraints(steps: readonly Step[], { bundle, options, facts }: Evidence): Promise<void> {
  if (bundle.delegations.every(({ constraints }) => constraints.length === 0)) return;
  for (const { certificate: index = 0 } of reached(steps, CONSTRAINTS_RULE.name)) {
    const certificate = bundle.delegations[index];
    if (certificate === undefined) return;
    const input = { certId: certificate.cert_id, now: options.now, context: options.context ?? {} };
    facts.refusals[index] = await evaluateConstraints(certificate.constraints, input);
    if (facts.refusals[index] !== undefined) return;
  }
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
