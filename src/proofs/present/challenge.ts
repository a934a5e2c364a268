import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { addSeconds, unixSeconds } from "../../clock.ts";
import { CHALLENGE_WINDOW_SECONDS } from "../../protocol/encoding/constants.ts";

/**
 * A challenge is 32 bytes and needs no row when it is issued:
 * `version (1) ‖ expiry, u32be Unix seconds (4) ‖ random (11) ‖ truncated HMAC-SHA256 (16)`,
 * the MAC over the first 16 bytes and the connection that asked for it.
 */
const VERSION = 1;
const SIGNED_BYTES = 16;
const CHALLENGE_BYTES = 32;
const SECONDS_A_DAY = 86_400;

/** The key of a day, numbered from the Unix epoch. */
export type ChallengeKey = { day: number; secret: Uint8Array };

/** What a well-formed challenge says of itself; `isIssuedBy` says whether it is true. */
export type ChallengeClaims = { expiresAt: Date; day: number };

/** The number of the day whose key signs challenges issued at `now`. */
export function challengeDay(now: Date): number {
  return Math.floor(unixSeconds(now) / SECONDS_A_DAY);
}

/**
 * A fresh challenge for a connection, good for `CHALLENGE_WINDOW_SECONDS` from `now`. `key` is that of
 * `challengeDay(now)`.
 */
export function issueChallenge(key: ChallengeKey, connectionId: string, now: Date): Buffer {
  const signed = Buffer.alloc(SIGNED_BYTES);
  signed[0] = VERSION;
  signed.writeUInt32BE(unixSeconds(now) + CHALLENGE_WINDOW_SECONDS, 1);
  randomBytes(SIGNED_BYTES - 5).copy(signed, 5);
  return Buffer.concat([signed, macOf(key, signed, connectionId)]);
}

/** Reads the claims of a challenge, or nothing when its length or version is not ours. */
export function readChallenge(challenge: Uint8Array): ChallengeClaims | undefined {
  const bytes = Buffer.from(challenge.buffer, challenge.byteOffset, challenge.byteLength);
  if (bytes.length !== CHALLENGE_BYTES || bytes[0] !== VERSION) return undefined;
  const expiry = bytes.readUInt32BE(1);
  const issuedAt = addSeconds(new Date(expiry * 1000), -CHALLENGE_WINDOW_SECONDS);
  return { expiresAt: new Date(expiry * 1000), day: challengeDay(issuedAt) };
}

/** Whether a challenge was issued with this key to this connection. Constant time. */
export function isIssuedBy(key: ChallengeKey, challenge: Uint8Array, connectionId: string): boolean {
  if (challenge.length !== CHALLENGE_BYTES) return false;
  const expected = macOf(key, challenge.subarray(0, SIGNED_BYTES), connectionId);
  return timingSafeEqual(expected, challenge.subarray(SIGNED_BYTES));
}

function macOf(key: ChallengeKey, signed: Uint8Array, connectionId: string): Buffer {
  const mac = createHmac("sha256", key.secret).update(signed).update(connectionId).digest();
  return mac.subarray(0, CHALLENGE_BYTES - SIGNED_BYTES);
}
