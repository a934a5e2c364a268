import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { LRUCache } from "lru-cache";
import { addSeconds, type Clock, unixSeconds } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import type { ProofBundle } from "../../protocol/documents/proof_bundle.ts";
import { decodeBase64 } from "../../protocol/encoding/base64.ts";
import { CHALLENGE_WINDOW_SECONDS } from "../../protocol/encoding/constants.ts";
import { isSignedByItsAgent } from "../../protocol/verification/verify_bundle.ts";
import type { SecretBox } from "../../secret_box.ts";

/**
 * Format of a challenge. It has 32 bytes, and issuing it stores no database row: `version (1) ‖ expiry, u32be
 * Unix seconds (4) ‖ random (7) ‖ service tag (4) ‖ truncated HMAC-SHA256 (16)`. The tag is a MAC of the
 * bytes before it. It shows that this service issued the challenge, whichever connection asked for it. The
 * last MAC covers the first 16 bytes and that connection.
 */
const VERSION = 1;
const TAGGED_BYTES = 12;
const SIGNED_BYTES = 16;
const SECONDS_A_DAY = 86_400;
const TAG_DOMAIN = "issued by this service";

/** Length of a challenge in bytes, as in the protocol. */
export const CHALLENGE_BYTES = 32;

/** The MAC key of one day. Day 0 is the day of the Unix epoch. */
export type ChallengeKey = { day: number; secret: Uint8Array };

/** Unverified claims of a well-formed challenge. `isIssuedBy` verifies them. */
export type ChallengeClaims = { expiresAt: Date; day: number };

/** Returns the number of the day whose key signs challenges issued at `now`. */
export function challengeDay(now: Date): number {
  return Math.floor(unixSeconds(now) / SECONDS_A_DAY);
}

/** Creates a challenge for `CHALLENGE_WINDOW_SECONDS`. `key` must be the key of `challengeDay(now)`. */
export function issueChallenge(key: ChallengeKey, connectionId: string, now: Date): Buffer {
  const signed = Buffer.alloc(SIGNED_BYTES);
  signed[0] = VERSION;
  signed.writeUInt32BE(unixSeconds(now) + CHALLENGE_WINDOW_SECONDS, 1);
  randomBytes(TAGGED_BYTES - 5).copy(signed, 5);
  tagOf(key, signed).copy(signed, TAGGED_BYTES);
  return Buffer.concat([signed, macOf(key, signed, connectionId)]);
}

/** Reads a challenge's claims. Returns `undefined` for a length or version that this service never issues. */
export function readChallenge(challenge: Uint8Array): ChallengeClaims | undefined {
  const bytes = Buffer.from(challenge.buffer, challenge.byteOffset, challenge.byteLength);
  if (bytes.length !== CHALLENGE_BYTES || bytes[0] !== VERSION) return undefined;
  const expiry = bytes.readUInt32BE(1);
  const issuedAt = addSeconds(new Date(expiry * 1000), -CHALLENGE_WINDOW_SECONDS);
  return { expiresAt: new Date(expiry * 1000), day: challengeDay(issuedAt) };
}

function tagOf(key: ChallengeKey, challenge: Uint8Array): Buffer {
  const tag = createHmac("sha256", key.secret).update(TAG_DOMAIN).update(challenge.subarray(0, TAGGED_BYTES));
  return tag.digest().subarray(0, SIGNED_BYTES - TAGGED_BYTES);
}

/** Checks whether a challenge was issued with this key, to any connection. */
export function isTaggedWith(key: ChallengeKey, challenge: Uint8Array): boolean {
  if (challenge.length !== CHALLENGE_BYTES) return false;
  return timingSafeEqual(tagOf(key, challenge), challenge.subarray(TAGGED_BYTES, SIGNED_BYTES));
}

/** Checks whether a challenge was issued with this key to this connection, in constant time. */
export function isIssuedBy(key: ChallengeKey, challenge: Uint8Array, connectionId: string): boolean {
  if (challenge.length !== CHALLENGE_BYTES) return false;
  const expected = macOf(key, challenge.subarray(0, SIGNED_BYTES), connectionId);
  return timingSafeEqual(expected, challenge.subarray(SIGNED_BYTES));
}

function macOf(key: ChallengeKey, signed: Uint8Array, connectionId: string): Buffer {
  const mac = createHmac("sha256", key.secret).update(signed).update(connectionId).digest();
  return mac.subarray(0, CHALLENGE_BYTES - SIGNED_BYTES);
}

/** The daily challenge keys, which all replicas share. */
export type ChallengeKeys = {
  /** Returns the key for issuing challenges on a day. The first replica that needs the key creates it. */
  forIssuing(day: number, now: Date): Promise<ChallengeKey>;
  /** Returns the key of a day, or `undefined` if no key was ever created for that day. */
  find(day: number): Promise<ChallengeKey | undefined>;
};

/** Number of daily keys in memory: today, yesterday, and one day for clocks that differ. */
const REMEMBERED_DAYS = 3;

/** Stores keys sealed in Postgres, and caches them. Concurrent lookups of one day query the database once. */
export function createChallengeKeys({
  db,
  secretBox,
}: {
  db: Database;
  secretBox: SecretBox;
}): ChallengeKeys {
  const keys = new LRUCache<number, ChallengeKey>({
    max: REMEMBERED_DAYS,
    fetchMethod: async (day) => {
      const row = await db("challenge_keys").where({ day }).first();
      return (
        row && { day, secret: Buffer.from(secretBox.unbox(row.secret_sealed, contextOf(day)), "base64") }
      );
    },
  });

  // A shared lookup may have begun before this call, and before the key was stored. So if it finds no key,
  // the call takes part in a second lookup, which began later.
  const find = async (day: number) => (await keys.fetch(day)) ?? keys.fetch(day);

  return {
    find,
    async forIssuing(day, now) {
      const known = await keys.fetch(day);
      if (known) return known;
      const sealed = secretBox.box(randomBytes(32).toString("base64"), contextOf(day));
      await db("challenge_keys")
        .insert({ day, secret_sealed: sealed, created_at: now })
        .onConflict("day")
        .ignore();
      const made = await find(day);
      if (!made) throw new Error("The challenge key could not be stored");
      return made;
    },
  };
}

function contextOf(day: number): string {
  return `challenge_keys/${day}`;
}

/** A replica's clock may run this far ahead, so an expiry that is this much too late is still accepted. */
const CLOCK_SKEW_SECONDS = 30;

/** A challenge of this service that has not expired. */
export type OpenChallenge = { bytes: Uint8Array; expiresAt: Date };

/**
 * Reads a bundle's challenge. Throws the same `invalid_challenge` for unknown challenges, expired challenges,
 * and challenges of other connections. Does not check whether the challenge is spent.
 */
export async function checkChallenge(
  keys: ChallengeKeys,
  bundle: ProofBundle,
  connectionId: string,
  now: Date,
): Promise<OpenChallenge> {
  const open = await checkIssued(keys, decodeBase64(bundle.challenge), [connectionId], now);
  if (open === undefined || secondsLeft(open, now) > CHALLENGE_WINDOW_SECONDS + CLOCK_SKEW_SECONDS) {
    throw new ApiError("invalid_challenge");
  }
  return open;
}

/**
 * Returns a challenge if it has not expired at `now` and was issued to one of the connections. The replica
 * that issued it may have a clock that is up to a day ahead.
 */
export async function checkIssued(
  keys: ChallengeKeys,
  bytes: Uint8Array,
  connectionIds: readonly string[],
  now: Date,
): Promise<OpenChallenge | undefined> {
  const claims = readChallenge(bytes);
  if (!claims || secondsLeft(claims, now) < 0 || !isKnownDay(claims, now)) return undefined;
  const key = await keys.find(claims.day);
  if (!key || !connectionIds.some((id) => isIssuedBy(key, bytes, id))) return undefined;
  return { bytes, expiresAt: claims.expiresAt };
}

/**
 * Checks whether this service issued a challenge to any connection within the last day. An older challenge
 * of this service is useless, so it counts as unknown.
 */
export async function isIssuedHere(keys: ChallengeKeys, bytes: Uint8Array, now: Date): Promise<boolean> {
  const claims = readChallenge(bytes);
  if (!claims || !isKnownDay(claims, now)) return false;
  const key = await keys.find(claims.day);
  return key !== undefined && isTaggedWith(key, bytes);
}

function secondsLeft({ expiresAt }: { expiresAt: Date }, now: Date): number {
  return (expiresAt.getTime() - now.getTime()) / 1000;
}

/** Checks whether a challenge claims a time within a day, so that only keys of these days are looked up. */
function isKnownDay(claims: ChallengeClaims, now: Date): boolean {
  return Math.abs(secondsLeft(claims, now)) <= SECONDS_A_DAY;
}

/**
 * Checks whether a proof's agent signed a challenge that is still valid for this connection. A proof for
 * a different service, or an old proof, shows nothing about the current sender.
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
