import { codeOf } from "../describe_fault.ts";

/** SQLSTATE: a row with the same unique key already exists. */
export const UNIQUE_VIOLATION = "23505";
/** SQLSTATE: a row violates a check constraint of its table. */
export const CHECK_VIOLATION = "23514";
/** SQLSTATE: another transaction did not release a lock in time. */
export const LOCK_NOT_AVAILABLE = "55P03";

/** SQLSTATE: the server, or this session, accepts no changes. */
export const READ_ONLY = "25006";

/** Returns an error's SQLSTATE: the five characters by which Postgres identifies the kind of error. */
export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

const AWAY_SYSTEM_CODES = new Set([
  "EADDRNOTAVAIL",
  "EAI_AGAIN",
  "ECONNABORTED",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTDOWN",
  "EHOSTUNREACH",
  "EMFILE",
  "ENETDOWN",
  "ENETRESET",
  "ENETUNREACH",
  "ENFILE",
  "ENOBUFS",
  "ENOMEM",
  "ENOSPC",
  "ENOTFOUND",
  "EPIPE",
  "ETIMEDOUT",
]);

/**
 * SQLSTATE classes after which a retry may succeed. 08: connection. 25: the transaction was ended, or the
 * server became read-only. 28, 3D and 42501: the server refuses the login, lacks the database or refuses the
 * role's rights, until an administrator corrects it. 40: rolled back because of another transaction. 53:
 * resources exhausted. 55: an object in use. 57: shut down or took too long. 58 and XX: a fault of the server
 * or its machine. A consumer must not turn an event into a dead letter because of these errors.
 */
const AWAY_STATES = /^(?:(?:08|25|28|3D|40|53|55|57|58|XX)...|42501)$/;

const AWAY_MESSAGES = [
  /^Connection (?:terminated|ended)/,
  /^timeout exceeded when trying to connect$/,
  /^timeout expired$/,
  /^Client has encountered a connection error/,
  /^Client was closed and is not queryable$/,
  /^Cannot use a pool after calling end/,
  /^Unable to acquire a connection$/,
  /^Query read timeout$/,
];

/** Returns whether an error means that the database or another remote service is temporarily unavailable. */
export function isAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError) return error.errors.some(isAway);
  if (error.name === "KnexTimeoutError" || error.name === "TimeoutError") return true;
  const code = codeOf(error);
  if (code !== undefined && (AWAY_SYSTEM_CODES.has(code) || AWAY_STATES.test(code))) return true;
  return AWAY_MESSAGES.some((pattern) => pattern.test(error.message.split(" - ").at(-1) ?? ""));
}

/** Returns why a database did not answer, in a few words for the log. Never contains a secret. */
export function outageReason(error: unknown): string {
  if (error instanceof AggregateError) return outageReason(error.errors[0]);
  if (!(error instanceof Error)) return "unknown";
  if (error.name === "KnexTimeoutError") return "no connection in time";
  return error.message.split(" - ").at(-1) || (codeOf(error) ?? error.name);
}

/**
 * The server has written a commit, but no standby has confirmed it. If the standby is promoted, the commit is
 * lost. Without this error, a cancelled wait would turn such a commit into a success.
 */
export class UnconfirmedCommit extends Error {
  override readonly name = "UnconfirmedCommit";
  /** SQLSTATE: the result of the transaction is unknown. */
  readonly code = "08007";
}
