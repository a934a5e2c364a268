import { ApiError } from "../../errors.ts";
import { codeOf } from "../../fault.ts";
import { VaultRefused, VaultUnavailable } from "../../vault/errors.ts";

const AWAY_SYSTEM_CODES = new Set([
  "EAI_AGAIN",
  "ECONNABORTED",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EPIPE",
  "ETIMEDOUT",
]);

/**
 * Postgres states in which a repetition may succeed: 08 connection, 53 resources used up, 57 shut down or given up for taking too long, 40 given up
 * for another transaction, 55P03 a row not had in time, 25006 a server that has become read-only.
 */
const AWAY_STATES = /^(?:08...|53...|57...|40...|55P03|25006)$/;

const AWAY_MESSAGES = [
  /^Connection terminated/,
  /^timeout exceeded when trying to connect$/,
  /^Client has encountered a connection error/,
  /^Client was closed and is not queryable$/,
  /^Cannot use a pool after calling end/,
  /^Unable to acquire a connection$/,
  /^Query read timeout$/,
];

/**
 * What a caller is told of anything thrown: an `ApiError` as it is, a vault that is away or will not sign as
 * `vault_unavailable` (with the time to come again when it was asked too often), another part that is away as
 * `unavailable`, all else as `internal`, without a word of what happened.
 */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof VaultRefused)
    return new ApiError("vault_unavailable", undefined, retryHeaders(error.retryAfterSeconds));
  if (error instanceof VaultUnavailable) return new ApiError("vault_unavailable");
  return new ApiError(isAway(error) ? "unavailable" : "internal");
}

function retryHeaders(seconds: number | undefined): Record<string, string> {
  return seconds === undefined ? {} : { "retry-after": String(seconds) };
}

/** Whether an error says that the database, or another part reached over the network, is away. */
export function isAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === "KnexTimeoutError" || error.name === "TimeoutError") return true;
  const code = codeOf(error);
  if (code !== undefined && (AWAY_SYSTEM_CODES.has(code) || AWAY_STATES.test(code))) return true;
  return AWAY_MESSAGES.some((pattern) => pattern.test(error.message.split(" - ").at(-1) ?? ""));
}
