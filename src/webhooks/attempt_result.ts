import type { AttemptResult } from "../events/metrics/event_metrics.ts";

/** The result of one request to a callback URL: an answer, or why there was none. */
export type Sent =
  | { status: number; retryAfter: string | undefined; excerpt: Buffer }
  | { fault: SendErrorCode; detail: string };

/**
 * Why there was no answer: no time left, the name not resolved, no connection (TLS included), the exchange
 * broken off, an address that must not be connected to (then nothing was sent), or a request that could not
 * be made up here.
 */
export type SendErrorCode = "timeout" | "dns" | "connect" | "network" | "forbidden_address" | "unprepared";

/**
 * Statuses below 500 that ask for another try later: timeout, too early, too many requests. A delivery is
 * tried again once (specification §6).
 */
export const DEFERRALS: readonly number[] = [408, 425, 429];
/** Statuses of a receiver that is overloaded or away. */
const STRAINED = new Set([502, 503, 504]);
const GONE = 410;

/** The verdict on an attempt by itself. Redirects are failures: they are never followed. */
export function resultOf(sent: Sent): AttemptResult {
  if ("fault" in sent) return sent.fault === "forbidden_address" ? "blocked" : "failed";
  const { status } = sent;
  if (status >= 200 && status < 300) return "delivered";
  if (status === GONE) return "gone";
  return status >= 400 && status < 500 && !DEFERRALS.includes(status) ? "rejected" : "failed";
}

/** Whether the receiver asks for another try, with a status that does so. */
export function isDeferred(sent: Sent): boolean {
  return "status" in sent && DEFERRALS.includes(sent.status);
}

/** Whether the receiver seems overloaded, so that the next try should not be soon. */
export function isStrained(sent: Sent): boolean {
  return "fault" in sent ? sent.fault === "timeout" : STRAINED.has(sent.status);
}
