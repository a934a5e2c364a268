import { addSeconds } from "../clock.ts";
import { backoff, type Jitter, jittered } from "../concurrency/backoff.ts";
import type { WebhookEndpointRow } from "../db/tables.ts";
import type { AttemptResult } from "../events/event_metrics.ts";

/** The result of one request to a callback URL: a response, or the reason why there was none. */
export type Sent =
  | { status: number; retryAfter: string | undefined; excerpt: Buffer }
  | { fault: SendErrorCode; detail: string };

/**
 * The reason why there was no response. `dns`: the name was not resolved. `connect`: no connection or TLS
 * session. `network`: the connection was lost later. `forbidden_address`: nothing was sent. `unprepared`: the
 * worker could not create the request.
 */
export type SendErrorCode = "timeout" | "dns" | "connect" | "network" | "forbidden_address" | "unprepared";

/** Statuses below 500 that ask for a later retry. The worker retries once (specification §6). */
export const DEFERRALS: readonly number[] = [408, 425, 429];
/** Statuses of a receiver that is overloaded or unavailable. */
const STRAINED = new Set([502, 503, 504]);
const GONE = 410;

/** Classifies a single attempt. Redirects are failures, because the worker never follows them. */
export function resultOf(sent: Sent): AttemptResult {
  if ("fault" in sent) return sent.fault === "forbidden_address" ? "blocked" : "failed";
  const { status } = sent;
  if (status >= 200 && status < 300) return "delivered";
  if (status === GONE) return "gone";
  return status >= 400 && status < 500 && !DEFERRALS.includes(status) ? "rejected" : "failed";
}

/** Returns whether the response asks for a retry. */
export function isDeferred(sent: Sent): boolean {
  return "status" in sent && DEFERRALS.includes(sent.status);
}

/** Returns whether the receiver seems overloaded, so that the next try must not come soon. */
export function isStrained(sent: Sent): boolean {
  return "fault" in sent ? sent.fault === "timeout" : STRAINED.has(sent.status);
}

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

/** The number of attempts after which a delivery has failed. */
export const MAX_ATTEMPTS = RETRY_DELAYS.length + 1;

const SPREAD: Jitter = [0.8, 1.2];
const STRAINED_DELAY = MINUTE;

/**
 * Returns the milliseconds to wait after the failed attempt number `attempt` of a schedule (1 is the first),
 * or undefined if it was the last. `random` is uniform in [0, 1).
 *
 * The delay is the scheduled delay ±20 %, and at least 60 s if the receiver seems overloaded. A `Retry-After`
 * can lengthen it to twice as much, up to 24 h. If the response asks for a retry, the delay is its
 * `Retry-After`, between 60 s and 24 h.
 */
export function retryDelay(attempt: number, sent: Sent, now: Date, random: number): number | undefined {
  const scheduled = RETRY_DELAYS[attempt - 1];
  if (scheduled === undefined) return undefined;
  const asked = ("fault" in sent ? undefined : retryAfterSeconds(sent.retryAfter, now)) ?? 0;
  if (isDeferred(sent)) return milliseconds(Math.max(strained(STRAINED_DELAY, random), Math.min(asked, DAY)));
  const delay = isStrained(sent) ? strained(scheduled, random) : jittered(scheduled, SPREAD, random);
  return milliseconds(Math.max(delay, Math.min(asked, 2 * delay, DAY)));
}

/** Parses a `Retry-After` header (seconds or an HTTP date) to seconds. Returns undefined if it is neither. */
export function retryAfterSeconds(header: string | undefined, now: Date): number | undefined {
  if (header === undefined) return undefined;
  if (/^\d{1,9}$/.test(header)) return Number(header);
  const at = /^[A-Za-z]{3}, .* GMT$/.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, (at - now.getTime()) / 1000);
}

function milliseconds(seconds: number): number {
  return Math.round(seconds * 1000);
}

/** A value below the minimum is mirrored to the same distance above it. */
function strained(scheduled: number, random: number): number {
  const delay = jittered(Math.max(scheduled, STRAINED_DELAY), SPREAD, random);
  return STRAINED_DELAY + Math.abs(delay - STRAINED_DELAY);
}

/** The state of an endpoint after its recent attempts. It limits the concurrent requests to the endpoint. */
export type Health = Pick<
  WebhookEndpointRow,
  | "state"
  | "suspended_at"
  | "suspend_reason"
  | "concurrency"
  | "failures_in_row"
  | "failing_since"
  | "window_started_at"
  | "window_attempts"
  | "window_failures"
  | "breaker_open_seconds"
  | "breaker_open_until"
>;

const MOST_CONCURRENT = 16;
const FAILURES_IN_ROW = 5;
const WINDOW_SECONDS = 60;
const WINDOW_ATTEMPTS = 20;
const FIRST_OPEN_SECONDS = 60;
const LONGEST_OPEN_SECONDS = 15 * 60;
const SUSPEND_AFTER_SECONDS = 120 * 60 * 60;

/** The health of a new or resumed endpoint. */
export const FRESH_HEALTH: Health = {
  state: "active",
  suspended_at: null,
  suspend_reason: null,
  concurrency: 4,
  failures_in_row: 0,
  failing_since: null,
  window_started_at: null,
  window_attempts: 0,
  window_failures: 0,
  breaker_open_seconds: null,
  breaker_open_until: null,
};

/**
 * Returns an endpoint's health after an attempt that began at `startedAt`. An attempt without a request
 * (`blocked`) changes neither the breaker nor the limit of concurrent requests.
 *
 * - The breaker opens after 5 failures in a row, or if half of at least 20 attempts within 60 s failed. A
 *   failed probe doubles the time for which it is open, from 60 s to 15 min. Any response except a failure
 *   closes it.
 * - A suspension begins if the receiver answers that it is gone, or after 120 h without a successful
 *   delivery. A paused endpoint is never suspended.
 */
export function healthAfter(before: Health, verdict: AttemptResult, startedAt: Date, now: Date): Health {
  if (verdict === "blocked") {
    return withSuspension({ ...before, failing_since: before.failing_since ?? now }, verdict, now);
  }
  const counted = withWindow(withConcurrency(before, verdict), verdict, now);
  return withSuspension(withBreaker(counted, verdict, startedAt, now), verdict, now);
}

function withConcurrency(health: Health, verdict: AttemptResult): Health {
  if (verdict === "delivered") {
    return { ...health, concurrency: Math.min(health.concurrency + 1, MOST_CONCURRENT) };
  }
  if (verdict !== "failed") return health;
  return { ...health, concurrency: Math.max(Math.floor(health.concurrency / 2), 1) };
}

function withWindow(health: Health, verdict: AttemptResult, now: Date): Health {
  const failed = verdict === "failed" ? 1 : 0;
  const started = health.window_started_at;
  const current = started !== null && now < addSeconds(started, WINDOW_SECONDS);
  return {
    ...health,
    failures_in_row: failed === 1 ? health.failures_in_row + 1 : 0,
    failing_since: verdict === "delivered" ? null : (health.failing_since ?? now),
    window_started_at: current ? started : now,
    window_attempts: current ? health.window_attempts + 1 : 1,
    window_failures: current ? health.window_failures + failed : failed,
  };
}

function withBreaker(health: Health, verdict: AttemptResult, startedAt: Date, now: Date): Health {
  const { breaker_open_until: openUntil, breaker_open_seconds: openSeconds } = health;
  if (openUntil === null || openSeconds === null) {
    return shouldOpen(health, verdict) ? opened(health, FIRST_OPEN_SECONDS, now) : health;
  }
  if (verdict !== "failed") {
    return { ...health, breaker_open_until: null, breaker_open_seconds: null };
  }
  const wasProbe = startedAt >= openUntil;
  // Doubles the previous wait, because the health does not store the number of failed probes.
  const longer = backoff({ base: openSeconds, cap: LONGEST_OPEN_SECONDS }, 2);
  return wasProbe ? opened(health, longer, now) : health;
}

function shouldOpen(health: Health, verdict: AttemptResult): boolean {
  if (verdict !== "failed") return false;
  const { failures_in_row: inRow, window_attempts: attempts, window_failures: failures } = health;
  return inRow >= FAILURES_IN_ROW || (attempts >= WINDOW_ATTEMPTS && failures * 2 >= attempts);
}

function opened(health: Health, seconds: number, now: Date): Health {
  return { ...health, breaker_open_seconds: seconds, breaker_open_until: addSeconds(now, seconds) };
}

function withSuspension(health: Health, verdict: AttemptResult, now: Date): Health {
  const since = health.failing_since;
  const failing = since !== null && now >= addSeconds(since, SUSPEND_AFTER_SECONDS);
  if (health.state !== "active" || (verdict !== "gone" && !failing)) return health;
  const reason = verdict === "gone" ? "gone" : "failing";
  return { ...health, state: "suspended", suspended_at: now, suspend_reason: reason };
}
