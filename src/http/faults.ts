import { ApiError } from "../errors.ts";
import { VaultRefused, VaultUnavailable } from "../vault/errors.ts";

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
 * Postgres states in which a repetition may succeed: 08 connection, 53 resources used up, 57P shut down, 40 given up
 * for another transaction, 25006 a server that has become read-only.
 */
const AWAY_STATES = /^(?:08...|53...|57P..|40...|25006)$/;

const AWAY_MESSAGES = [
  /^Connection terminated/,
  /^timeout exceeded when trying to connect$/,
  /^Client has encountered a connection error/,
  /^Client was closed and is not queryable$/,
  /^Cannot use a pool after calling end/,
  /^Unable to acquire a connection$/,
  /^Query read timeout$/,
];

/** What is told of an unexpected fault: its kind and where it arose. */
export type Fault = { type: string; code?: string; message: string; stack?: string };

/**
 * What a caller is told of anything thrown: an `ApiError` as it is, a vault that is away or will not sign as
 * `vault_unavailable`, another part that is away as `unavailable`, all else as `internal`, without a word of what happened.
 */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof VaultUnavailable || error instanceof VaultRefused)
    return new ApiError("vault_unavailable");
  return new ApiError(isAway(error) ? "unavailable" : "internal");
}

/** Whether an error says that the database, or another part reached over the network, is away. */
export function isAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === "KnexTimeoutError" || error.name === "TimeoutError") return true;
  const code = codeOf(error);
  if (code !== undefined && (AWAY_SYSTEM_CODES.has(code) || AWAY_STATES.test(code))) return true;
  return AWAY_MESSAGES.some((pattern) => pattern.test(error.message.split(" - ").at(-1) ?? ""));
}

/**
 * A fault for the log. What could carry a caller's data is left out: of a database's error its words, which quote values,
 * and its `detail`; the statement with its placeholders, the state and the constraint stay.
 */
export function describeFault(error: unknown): Fault {
  if (!(error instanceof Error)) return { type: typeof error, message: "not an error" };
  const code = codeOf(error);
  const frames = error.stack?.split("\n").filter((line) => line.startsWith("    at "));
  return {
    type: error.name,
    ...(code === undefined ? {} : { code }),
    message: isDatabaseError(error) ? describeDatabaseError(error) : error.message,
    ...(frames === undefined ? {} : { stack: frames.join("\n") }),
  };
}

type DatabaseError = Error & { severity: string; code: string; constraint?: string };

function isDatabaseError(error: Error): error is DatabaseError {
  return "severity" in error && /^[0-9A-Z]{5}$/.test(codeOf(error) ?? "");
}

function describeDatabaseError({ message, code, constraint }: DatabaseError): string {
  const end = message.lastIndexOf(" - ");
  const statement = end === -1 ? [] : [message.slice(0, end)];
  return [...statement, `SQLSTATE ${code}`, ...(constraint === undefined ? [] : [constraint])].join(" - ");
}

function codeOf(error: Error): string | undefined {
  return "code" in error && typeof error.code === "string" ? error.code : undefined;
}
