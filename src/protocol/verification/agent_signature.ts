import { challengeSignBytes } from "../documents/challenge.ts";
import type { ProofBundle } from "../documents/proof_bundle.ts";
import { ProtocolError } from "../encoding/errors.ts";
import { isIdOf, verifyHybrid } from "../keys/hybrid.ts";

type Signed = Omit<ProofBundle, "delegations">;

/**
 * Whether the agent that a proof names signed it. Says nothing of its certificates, its time or its
 * challenge.
 */
export async function isSignedByItsAgent(proof: Signed): Promise<boolean> {
  if (!isIdOf(proof.agent_id, proof.agent_pub_key)) return false;
  try {
    return await verifyHybrid(proof.agent_pub_key, challengeSignBytes(proof), proof.challenge_sig);
  } catch (error) {
    if (error instanceof ProtocolError) return false;
    throw error;
  }
}
