import type { Clock } from "../clock.ts";
import { ApiError } from "../errors.ts";
import { isSignedByItsAgent } from "../protocol/agent_signature.ts";
import { decodeBase64 } from "../protocol/base64.ts";
import type { ProofBundle } from "../protocol/proof_bundle.ts";
import type { ApiKeyCaller } from "../route.ts";
import type { ChallengeKeys } from "./challenge_keys.ts";
import { checkChallenge } from "./check_challenge.ts";

type Asked = { caller: Pick<ApiKeyCaller, "connectionId">; bundle: ProofBundle };

/** Whether a proof's agent signed a challenge that is still good here: what was seen elsewhere, or long ago, proves nothing. */
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
