const MINUTE = 60;
const HOUR = 60 * MINUTE;

/** Seconds between a failed attempt and the next attempt: 12 attempts over 75 hours and 51 minutes. */
export const RETRY_DELAYS = [
  MINUTE,
  5 * MINUTE,
  15 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  4 * HOUR,
  8 * HOUR,
  12 * HOUR,
  24 * HOUR,
  24 * HOUR,
] as const;

/** Number of attempts after which a mail has failed permanently. */
export const MAX_ATTEMPTS = RETRY_DELAYS.length + 1;

/** Seconds after which a claim expires. An attempt and recording its result take less time. */
export const CLAIM_SECONDS = 60;
