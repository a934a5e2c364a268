import {
  checkIssuable,
  type DelegationCert,
  type DelegationFields,
  delegationSignBytes,
} from "../documents/certificate.ts";
import { type ChallengeBinding, challengeSignBytes } from "../documents/challenge.ts";
import type { ProofBundle } from "../documents/proof_bundle.ts";
import type { ProtocolError } from "../encoding/errors.ts";
import { type HybridPrivateKey, keyId, publicKeyOf, signHybrid } from "../keys/hybrid.ts";
import { sign } from "./statement.ts";

/** Signs a certificate with its issuer's key. Returns a `ProtocolError` if it must not be issued. */
export async function issueDelegation(
  fields: DelegationFields,
  issuer: HybridPrivateKey,
): Promise<DelegationCert | ProtocolError> {
  return checkIssuable(fields) ?? (await sign(fields, delegationSignBytes, issuer));
}

/**
 * Answers a challenge with an agent's key and a chain, leaf first. Rejects as `challengeSignBytes` throws.
 */
export async function presentProof(
  agent: HybridPrivateKey,
  delegations: DelegationCert[],
  binding: ChallengeBinding,
): Promise<ProofBundle> {
  const agent_pub_key = publicKeyOf(agent);
  const challenge_sig = await signHybrid(agent, challengeSignBytes(binding));
  return { agent_id: keyId(agent_pub_key), agent_pub_key, delegations, ...binding, challenge_sig };
}
