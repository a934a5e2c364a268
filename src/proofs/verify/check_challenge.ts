import type { Clock } from "../../clock.ts";
import { ApiError } from "../../errors.ts";
import type { ProofBundle } from "../../protocol/documents/proof_bundle.ts";
import { decodeBase64 } from "../../protocol/encoding/base64.ts";
import { CHALLENGE_WINDOW_SECONDS } from "../../protocol/encoding/constants.ts";
import { isSignedByItsAgent } from "../../protocol/verification/agent_signature.ts";
import { isIssuedBy, readChallenge } from "../present/challenge.ts";
import type { ChallengeKeys } from "../present/challenge_keys.ts";

/**
 * Challenges from clocks that run ahead of this one are still good when they end this many seconds too late.
 */
const CLOCK_SKEW_SECONDS = 30;

/** A challenge of this service that is not over. */
export type OpenChallenge = { bytes: Uint8Array; expiresAt: Date };

/**
 * Reads a bundle's challenge. Throws `invalid_challenge`, alike for unknown, foreign and expired ones.
 * Whether it is spent is for the deciding statement to say.
 */
export async function checkChallenge(
  keys: ChallengeKeys,
  bundle: ProofBundle,
  connectionId: string,
  now: Date,
): Promise<OpenChallenge> {
  const bytes = decodeBase64(bundle.challenge);
  const claims = readChallenge(bytes);
  if (!claims) throw new ApiError("invalid_challenge");
  const secondsLeft = (claims.expiresAt.getTime() - now.getTime()) / 1000;
  if (secondsLeft < 0 || secondsLeft > CHALLENGE_WINDOW_SECONDS + CLOCK_SKEW_SECONDS) {
    throw new ApiError("invalid_challenge");
  }
  const key = await keys.find(claims.day);
  if (!key || !isIssuedBy(key, bytes, connectionId)) throw new ApiError("invalid_challenge");
  return { bytes, expiresAt: claims.expiresAt };
}

/**
 * Whether a proof's agent signed a challenge that is still good here: a proof that was seen elsewhere, or
 * long ago, proves nothing.
 */
export async function isSignedHere(
  { keys, clock }: { keys: ChallengeKeys; clock: Clock },
  bundle: ProofBundle,
  connectionId: string,
): Promise<boolean> {
  try {
    await checkChallenge(keys, bundle, connectionId, clock.now());
  } catch (error) {
    if (error instanceof ApiError) return false;
    throw error;
  }
  return isSignedByItsAgent(bundle);
}
