import type { Clock } from "../../clock.ts";
import { ApiError } from "../../errors.ts";
import type { ProofBundle } from "../../protocol/documents/proof_bundle.ts";
import { decodeBase64 } from "../../protocol/encoding/base64.ts";
import { isSignedByItsAgent } from "../../protocol/verification/agent_signature.ts";
import type { ApiKeyCaller } from "../../route.ts";
import type { ChallengeKeys } from "../present/challenge_keys.ts";
import { checkChallenge } from "./check_challenge.ts";

type Asked = { caller: Pick<ApiKeyCaller, "connectionId">; bundle: ProofBundle };

/**
 * Whether a proof's agent signed a challenge that is still good here: what was seen elsewhere, or long ago,
 * proves nothing.
 */
export async function isSignedHere(
  { keys, clock }: { keys: ChallengeKeys; clock: Clock },
  { caller, bundle }: Asked,
): Promise<boolean> {
  try {
    await checkChallenge(keys, decodeBase64(bundle.challenge), caller.connectionId, clock.now());
  } catch (error) {
    if (error instanceof ApiError) return false;
    throw error;
  }
  return isSignedByItsAgent(bundle);
}
