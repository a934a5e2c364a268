import { evaluateConstraints } from "../constraints/evaluation.ts";
import { type DelegationCert, delegationSignBytes } from "../documents/certificate.ts";
import { challengeSignBytes } from "../documents/challenge.ts";
import { ProtocolError } from "../encoding/errors.ts";
import { signatureFault } from "../keys/hybrid.ts";
import { memoryKey } from "./certificate_memory.ts";
import { CONSTRAINTS_RULE, NOT_REVOKED_RULE, SIGNATURE_RULE } from "./certificate_rules.ts";
import { CHALLENGE_KNOWN_RULE } from "./challenge_rules.ts";
import type { Evidence, VerifyOptions } from "./evidence.ts";
import { isSound, reached } from "./findings.ts";
import type { Step } from "./steps.ts";

/** Step 3 of §8: asks the store whether the challenge is open, unless something is wrong already. */
export async function askStore(steps: readonly Step[], { bundle, options, facts }: Evidence): Promise<void> {
  const store = options.challengeStore;
  if (store === undefined || store === "deferred" || reached(steps, CHALLENGE_KNOWN_RULE.name).length === 0) {
    return;
  }
  facts.challengeKnown = await store.isKnown(bundle.challenge);
}

/**
 * Checks all signatures of a bundle that may be genuine; of any other, those that the answer depends on. What
 * is wrong with evidence stays wrong, so a bundle that is still sound when all facts are in had all of its
 * signatures checked.
 */
export async function checkSignatures(steps: readonly Step[], evidence: Evidence): Promise<void> {
  const all = isSound(steps);
  const wanted = all ? steps : reached(steps, SIGNATURE_RULE.name);
  const certificates = wanted
    .filter(({ name }) => name === SIGNATURE_RULE.name)
    .map(checkCertificateSignature);
  await Promise.all([...certificates, all ? checkChallengeSignature() : undefined]);

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
  return faultOf(() => checkOnce(certificate, options));
}

/**
 * As {@link signatureFault} of a certificate's own signature, which is taken from memory when it was found
 * good before.
 */
async function checkOnce(
  certificate: DelegationCert,
  { certificateMemory: memory, backend }: VerifyOptions,
): Promise<string | undefined> {
  if (memory?.recent?.textOf(certificate) !== undefined) return undefined;
  const signed = delegationSignBytes(certificate);
  const key = memory && memoryKey(signed, certificate.signature);
  if (key === undefined || !memory?.has(key)) {
    const fault = await signatureFault(certificate.issuer_pub_key, signed, certificate.signature, backend);
    if (fault !== undefined) return fault;
    if (key !== undefined) memory?.add(key);
  }
  memory?.recent?.add(certificate);
  return undefined;
}

/**
 * A bundle that was not decoded strictly may hold what has no signed bytes; that is a bad signature and no
 * broken call.
 */
async function faultOf(check: () => Promise<string | undefined>): Promise<string | undefined> {
  try {
    return await check();
  } catch (error) {
    if (error instanceof ProtocolError) return error.message;
    throw error;
  }
}

/** The lookups of step 6 of §8, leaf to root, up to the first certificate that is not good or not reached. */
export async function lookUpRevocation(
  steps: readonly Step[],
  { bundle, options, facts }: Evidence,
): Promise<void> {
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

/** Step 8 of §8: spends the challenge of a proof whose evidence is good as a whole, be it allowed or not. */
export async function spendChallenge(
  steps: readonly Step[],
  { bundle, options, facts }: Evidence,
): Promise<void> {
  const store = options.challengeStore;
  if (store === undefined || store === "deferred" || !isSound(steps)) return;
  facts.challengeSpent = await store.spend(bundle.challenge);
}

/** Holds the constraints of every certificate whose turn comes, up to the first that do not hold. */
export async function holdConstraints(
  steps: readonly Step[],
  { bundle, options, facts }: Evidence,
): Promise<void> {
  if (bundle.delegations.every(({ constraints }) => constraints.length === 0)) return;
  for (const { certificate: index = 0 } of reached(steps, CONSTRAINTS_RULE.name)) {
    const certificate = bundle.delegations[index];
    if (certificate === undefined) return;
    const input = { certId: certificate.cert_id, now: options.now, context: options.context ?? {} };
    facts.refusals[index] = await evaluateConstraints(certificate.constraints, input);
    if (facts.refusals[index] !== undefined) return;
  }
}
