import { unixSeconds } from "../clock.ts";
import { ApiError } from "../errors.ts";
import { NO_EXPIRY_SENTINEL } from "../protocol/encoding/constants.ts";

/** The requested expiry: in Unix seconds, or in seconds after approval. There is none if both are `null`. */
export type RequestedExpiry = { at: number | null; inSeconds: number | null };

/** Reads the expiry from a call, unchecked. Throws `invalid_expiry` if the call contains both forms. */
export function readExpiry(fields: {
  expires_at?: string | null | undefined;
  expires_in?: number | null | undefined;
}): RequestedExpiry {
  const at = fields.expires_at == null ? null : unixSeconds(new Date(fields.expires_at));
  const inSeconds = fields.expires_in ?? null;
  if (at !== null && inSeconds !== null) {
    throw new ApiError("invalid_expiry", "Give expires_at or expires_in, not both");
  }
  return { at, inSeconds };
}

/**
 * Returns the last second (Unix) in which a certificate approved at `now` is valid, or `null` if it does not
 * expire. Throws `invalid_expiry` if that second is not after `now`, or is so late that it would mean "until
 * revoked".
 */
export function endOf({ at, inSeconds }: RequestedExpiry, now: Date): number | null {
  const end = at ?? (inSeconds === null ? null : unixSeconds(now) + inSeconds);
  if (end === null) return null;
  if (end <= unixSeconds(now)) throw new ApiError("invalid_expiry", "The expiry is in the past");
  if (end >= NO_EXPIRY_SENTINEL) {
    throw new ApiError(
      "invalid_expiry",
      "The expiry is too late; leave it out for a delegation that does not expire",
    );
  }
  return end;
}

/**
 * Returns the expiry of a certificate approved at `now`: the approver's, or the requested expiry if the
 * approver sets none. Throws `invalid_expiry`, also if the approver extends the requested validity.
 */
export function approvedEnd(requested: RequestedExpiry, approver: RequestedExpiry, now: Date): number | null {
  const limit = endOf(requested, now);
  const end = endOf(approver, now) ?? limit;
  if (limit !== null && end !== null && end > limit) {
    throw new ApiError("invalid_expiry", "The expiry is later than requested");
  }
  return end;
}
