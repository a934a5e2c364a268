import { type Jitter, jittered } from "../concurrency/backoff.ts";
import { isDeferred, isStrained, type Sent } from "./attempt_result.ts";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Seconds between the end of each attempt and the next one: 10 attempts over 75 h 35 m 5 s. */
export const RETRY_DELAYS = [
  5,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR,
] as const;

/** Attempts before a delivery has failed. */
export const MAX_ATTEMPTS = RETRY_DELAYS.length + 1;

const SPREAD: Jitter = [0.8, 1.2];
const STRAINED_DELAY = MINUTE;

/**
 * Milliseconds to wait after the failed attempt number `attempt` of a schedule (1 is the first), or undefined
 * when it was the last one. The schedule's delay ±20 %, at least 60 s when the receiver seems overloaded; a
 * `Retry-After` can lengthen it to twice as much and at most 24 h, never shorten it. After an answer that
 * asks for another try: what its `Retry-After` says, at least 60 s and at most 24 h. `random` is uniform in
 * [0, 1).
 */
export function retryDelay(attempt: number, sent: Sent, now: Date, random: number): number | undefined {
  const scheduled = RETRY_DELAYS[attempt - 1];
  if (scheduled === undefined) return undefined;
  const asked = ("fault" in sent ? undefined : retryAfterSeconds(sent.retryAfter, now)) ?? 0;
  if (isDeferred(sent)) return milliseconds(Math.max(strained(STRAINED_DELAY, random), Math.min(asked, DAY)));
  const delay = isStrained(sent) ? strained(scheduled, random) : jittered(scheduled, SPREAD, random);
  return milliseconds(Math.max(delay, Math.min(asked, 2 * delay, DAY)));
}

/**
 * The seconds that a `Retry-After` header asks for (whole seconds or an HTTP date), or undefined when it is
 * neither.
 */
export function retryAfterSeconds(header: string | undefined, now: Date): number | undefined {
  if (header === undefined) return undefined;
  if (/^\d{1,9}$/.test(header)) return Number(header);
  const at = /^[A-Za-z]{3}, .* GMT$/.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, (at - now.getTime()) / 1000);
}

function milliseconds(seconds: number): number {
  return Math.round(seconds * 1000);
}

/** Never below the floor: what would fall below it is mirrored above it. */
function strained(scheduled: number, random: number): number {
  const delay = jittered(Math.max(scheduled, STRAINED_DELAY), SPREAD, random);
  return STRAINED_DELAY + Math.abs(delay - STRAINED_DELAY);
}
