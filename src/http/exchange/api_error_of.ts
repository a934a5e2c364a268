import { isAway } from "../../db/errors.ts";
import { ApiError } from "../../errors.ts";
import { VaultRefused, VaultUnavailable } from "../../vault/errors.ts";

/**
 * What a caller's answer says of anything thrown: an `ApiError` as it is, a vault that is away or will not
 * sign as `vault_unavailable` (with the time to try again when it was asked too often), another part that is
 * away as `unavailable`, all else as `internal`, without a word of what happened.
 */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof VaultRefused) {
    return new ApiError("vault_unavailable", undefined, retryHeaders(error.retryAfterSeconds));
  }
  if (error instanceof VaultUnavailable) return new ApiError("vault_unavailable");
  return new ApiError(isAway(error) ? "unavailable" : "internal");
}

function retryHeaders(seconds: number | undefined): Record<string, string> {
  return seconds === undefined ? {} : { "retry-after": String(seconds) };
}
