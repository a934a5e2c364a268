import { evaluateConstraints, type FailedConstraint } from "../constraints/evaluate_constraints.ts";
import { type DelegationCert, delegationSignBytes } from "../documents/certificate.ts";
import { memoryKey } from "../documents/certificate_memory.ts";
import { challengeSignBytes } from "../documents/challenge.ts";
import type { ProofBundle } from "../documents/proof_bundle.ts";
import { ProtocolError } from "../encoding/errors.ts";
import { isIdOf, signatureViolation, verifyHybrid } from "../keys/hybrid.ts";
import { reasonOf, statusOf, type Violation } from "../violations.ts";
import { CONSTRAINTS_RULE, NOT_REVOKED_RULE, SIGNATURE_RULE } from "./certificate_rules.ts";
import { CHALLENGE_KNOWN_RULE, CHALLENGE_SIGNATURE_RULE, CHALLENGE_SPENT_RULE } from "./challenge_rules.ts";
import type { Evidence, Verification, VerifyOptions } from "./evidence.ts";
import { effectiveScope, orderSteps } from "./rule_order.ts";
import { evaluateRules, type Findings, violation } from "./rules.ts";

export { type CertificateMemory, createCertificateMemory } from "../documents/certificate_memory.ts";
export type { ChallengeStore, Check, RevocationLookup, Verification, VerifyOptions } from "./evidence.ts";

/**
 * Verifies a decoded proof bundle (wire format §8). The first violated rule determines the answer. Lookups
 * and signature checks run only if their rule is reached. So a malformed bundle costs no signature work, and
 * a hostile bundle costs at most nine hybrid signature checks.
 *
 * Throws `ProtocolError` `invalid_integer` if `now` is not a safe integer. Rejects if the challenge store,
 * the invocation counter or the crypto library fails.
 */
export async function verifyBundle(bundle: ProofBundle, options: VerifyOptions): Promise<Verification> {
  if (!Number.isSafeInteger(options.now)) {
    throw new ProtocolError("invalid_integer", "now must be a whole number of Unix seconds");
  }
  const evidence: Evidence = { bundle, options };
  const findings = evaluateRules(orderSteps(evidence));
  await askStore(findings, evidence);
  await checkSignatures(findings, evidence);
  await lookUpRevocation(findings, evidence);
  await spendChallenge(findings, evidence);
  const failed = await checkConstraints(findings, evidence);
  return toVerification(findings, evidence, failed);
}

function toVerification(
  findings: Findings,
  { bundle, options }: Evidence,
  failed: FailedConstraint | undefined,
): Verification {
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
    ...(failed && { failed_constraint: failed }),
    ...common,
    checks: findings.checks,
  };
}

/** Step 3 of §8: asks the store whether the challenge is open, unless an earlier rule is violated. */
export async function askStore(findings: Findings, { bundle, options }: Evidence): Promise<void> {
  const store = options.challengeStore;
  const [step] = findings.reached(CHALLENGE_KNOWN_RULE);
  if (store === undefined || store === "deferred" || step === undefined) return;
  findings.add(step, (await store.isKnown(bundle.challenge)) ? undefined : unknownChallenge());
}

/**
 * Checks every signature of a bundle that may still be genuine, so a sound bundle is fully checked. For any
 * other bundle, checks only the signatures that the answer depends on.
 */
export async function checkSignatures(findings: Findings, { bundle, options }: Evidence): Promise<void> {
  const all = findings.isSound();
  const wanted = all ? findings.of(SIGNATURE_RULE) : findings.reached(SIGNATURE_RULE);
  const certificates = wanted.map(async (step) => {
    const { certificate: index = 0 } = step;
    const certificate = bundle.delegations[index];
    const fault = certificate && (await faultOf(() => checkOnce(certificate, options)));
    if (fault !== undefined) findings.add(step, violation("bad_signature", `cert ${index}: ${fault}`, index));
  });
  await Promise.all([...certificates, all ? checkChallengeSignature() : undefined]);

  async function checkChallengeSignature(): Promise<void> {
    const { agent_pub_key, challenge_sig } = bundle;
    const fault = await faultOf(() =>
      signatureViolation(agent_pub_key, challengeSignBytes(bundle), challenge_sig, options.backend),
    );
    if (fault === undefined) return;
    const [step] = findings.of(CHALLENGE_SIGNATURE_RULE);
    findings.add(step, violation("bad_challenge_sig", `challenge signature verification failed: ${fault}`));
  }
}

/** Checks a certificate's signature, unless the certificate memory shows that this signature is valid. */
async function checkOnce(
  certificate: DelegationCert,
  { certificateMemory: memory, backend }: VerifyOptions,
): Promise<string | undefined> {
  if (memory?.recent?.bytesOf(certificate) !== undefined) return undefined;
  const signed = delegationSignBytes(certificate);
  const key = memory && memoryKey(signed, certificate.signature);
  if (key !== undefined && memory?.has(key)) {
    memory.recent?.add(certificate);
    return undefined;
  }
  const fault = await signatureViolation(certificate.issuer_pub_key, signed, certificate.signature, backend);
  if (fault !== undefined || key === undefined) return fault;
  memory?.add(key);
  // Stores only the checked content. The caller may have changed the object during the asynchronous check.
  const isUnchanged = key === memoryKey(delegationSignBytes(certificate), certificate.signature);
  if (isUnchanged) memory?.recent?.add(certificate);
  return undefined;
}

/**
 * Returns the result of a signature check, or a message if a value cannot be signed. A bundle that was not
 * decoded strictly may contain such a value, which counts as a bad signature and not as a malformed call.
 */
async function faultOf(check: () => Promise<string | undefined>): Promise<string | undefined> {
  try {
    return await check();
  } catch (error) {
    if (error instanceof ProtocolError) return error.message;
    throw error;
  }
}

/** Step 6 of §8: checks from leaf to root whether certificates are revoked. */
async function lookUpRevocation(findings: Findings, { bundle, options }: Evidence): Promise<void> {
  const lookup = options.revocation;
  if (lookup === undefined || lookup === "deferred") return;
  for (const step of findings.reached(NOT_REVOKED_RULE)) {
    const { certificate: index = 0 } = step;
    const certificate = bundle.delegations[index];
    if (certificate === undefined) return;
    const found = await revocationOf(async () => lookup(certificate), index);
    findings.add(step, found);
    if (found !== undefined) return;
  }
}

async function revocationOf(
  isRevoked: () => Promise<boolean>,
  index: number,
): Promise<Violation | undefined> {
  try {
    if (!(await isRevoked())) return undefined;
  } catch {
    return violation("revocation_error", `cert ${index}: revocation state is not available`, index);
  }
  return violation("revoked", "delegation certificate has been revoked", index);
}

/** Step 8 of §8: spends the challenge if the evidence is good, even if the request is not allowed. */
export async function spendChallenge(findings: Findings, { bundle, options }: Evidence): Promise<void> {
  const store = options.challengeStore;
  if (store === undefined || store === "deferred" || !findings.isSound()) return;
  const [step] = findings.of(CHALLENGE_SPENT_RULE);
  findings.add(step, (await store.spend(bundle.challenge)) ? undefined : unknownChallenge());
}

/** Checks the constraints of each certificate. Returns the first constraint that does not hold. */
async function checkConstraints(
  findings: Findings,
  { bundle, options }: Evidence,
): Promise<FailedConstraint | undefined> {
  if (bundle.delegations.every(({ constraints }) => constraints.length === 0)) return undefined;
  for (const step of findings.reached(CONSTRAINTS_RULE)) {
    const { certificate: index = 0 } = step;
    const certificate = bundle.delegations[index];
    if (certificate === undefined) return undefined;
    const input = { certId: certificate.cert_id, now: options.now, context: options.context ?? {} };
    const refusal = await evaluateConstraints(certificate.constraints, input);
    if (refusal === undefined) continue;
    findings.add(step, violation(refusal.code, `cert ${index}: ${refusal.detail}`, index));
    return refusal.failed;
  }
  return undefined;
}

function unknownChallenge(): Violation {
  return violation("unknown_challenge", "challenge is not open");
}

type Signed = Omit<ProofBundle, "delegations">;

/** Returns whether the agent that a proof names signed it. Does not check certificates, time or challenge. */
export async function isSignedByItsAgent(proof: Signed): Promise<boolean> {
  if (!isIdOf(proof.agent_id, proof.agent_pub_key)) return false;
  try {
    return await verifyHybrid(proof.agent_pub_key, challengeSignBytes(proof), proof.challenge_sig);
  } catch (error) {
    if (error instanceof ProtocolError) return false;
    throw error;
  }
}
