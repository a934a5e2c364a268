import { type ChallengeBinding, challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import type { HybridPublicKey, HybridSignature } from "../../src/protocol/keys/hybrid.ts";
import type { Caller } from "../audit/record.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import { clockRefusal, type SigningParts, signStatement } from "./statement.ts";

/** An agent's signed response to a challenge. These are the last fields of a proof bundle. */
export type SignedChallenge = {
  agent_id: string;
  agent_pub_key: HybridPublicKey;
  challenge_sig: HybridSignature;
};

/** Signs a challenge and its binding to a request with an agent's key. */
export type SignChallenge = (
  caller: Caller,
  keyId: string,
  request: { tenant: string; binding: ChallengeBinding },
) => Promise<SignedChallenge | Refusal>;

/** Creates the operation that signs challenges. */
export function createChallengeSigning(parts: SigningParts): SignChallenge {
  return async (caller, keyId, { tenant, binding }) => {
    const call = { caller, keyId, tenant, purpose: "agent", statement: "challenge", detail: {} } as const;
    const signed = await signStatement(parts, call, async (_, now) => build(binding, now));
    if (isRefusal(signed)) return signed;
    return {
      agent_id: signed.key.keyId,
      agent_pub_key: signed.key.publicKey,
      challenge_sig: signed.signature,
    };
  };
}

function build(binding: ChallengeBinding, now: number): Uint8Array | Refusal {
  const refusal = clockRefusal("challenge_at", binding.challenge_at, now);
  if (refusal !== undefined) return refusal;
  try {
    return challengeSignBytes(binding);
  } catch (error) {
    if (error instanceof ProtocolError) return refuse("invalid_request", error.message);
    throw error;
  }
}
