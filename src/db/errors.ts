import { codeOf } from "../describe_fault.ts";

/** A row that must be the only one is there already. */
export const UNIQUE_VIOLATION = "23505";
/** A row breaks a rule of its table. */
export const CHECK_VIOLATION = "23514";
/** A row that somebody else holds was not let go in time. */
export const LOCK_NOT_AVAILABLE = "55P03";

/** The five characters by which Postgres names an error's kind; undefined for an error that has none. */
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
 * Postgres states in which a repetition may succeed: 08 connection, 25 a transaction that was ended or a
 * server that became read-only, 40 rolled back for another transaction, 53 resources used up, 55 something in
 * use, 57 shut down or taking too long, 58 and XX a fault of the server or its machine. A consumer of events
 * must not put one aside for any of them.
 */
const AWAY_STATES = /^(?:08|25|40|53|55|57|58|XX)...$/;

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

/**
 * Whether an error says that the database, or another part reached over the network, is away for now: trying
 * again can help.
 */
export function isAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError) return error.errors.some(isAway);
  if (error.name === "KnexTimeoutError" || error.name === "TimeoutError") return true;
  const code = codeOf(error);
  if (code !== undefined && (AWAY_SYSTEM_CODES.has(code) || AWAY_STATES.test(code))) return true;
  return AWAY_MESSAGES.some((pattern) => pattern.test(error.message.split(" - ").at(-1) ?? ""));
}

/** Why a database did not answer, in a few words for the log: never a secret. */
export function outageReason(error: unknown): string {
  if (error instanceof AggregateError) return outageReason(error.errors[0]);
  if (!(error instanceof Error)) return "unknown";
  if (error.name === "KnexTimeoutError") return "no connection in time";
  return error.message.split(" - ").at(-1) || (codeOf(error) ?? error.name);
}
