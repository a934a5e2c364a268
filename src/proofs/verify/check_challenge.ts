import { ApiError } from "../../errors.ts";
import { CHALLENGE_WINDOW_SECONDS } from "../../protocol/encoding/constants.ts";
import { isIssuedBy, readChallenge } from "../present/challenge.ts";
import type { ChallengeKeys } from "../present/challenge_keys.ts";

/**
 * Challenges from clocks that run ahead of this one are still believed when they end this many seconds too
 * late.
 */
const CLOCK_SKEW_SECONDS = 30;

/** When the challenge ends; throws `invalid_challenge`, alike for unknown, foreign and expired ones. */
export async function checkChallenge(
  keys: ChallengeKeys,
  challenge: Uint8Array,
  connectionId: string,
  now: Date,
): Promise<Date> {
  const claims = readChallenge(challenge);
  if (!claims) throw new ApiError("invalid_challenge");
  const secondsLeft = (claims.expiresAt.getTime() - now.getTime()) / 1000;
  if (secondsLeft < 0 || secondsLeft > CHALLENGE_WINDOW_SECONDS + CLOCK_SKEW_SECONDS) {
    throw new ApiError("invalid_challenge");
  }
  const key = await keys.find(claims.day);
  if (!key || !isIssuedBy(key, challenge, connectionId)) throw new ApiError("invalid_challenge");
  return claims.expiresAt;
}
