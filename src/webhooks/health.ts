import { addSeconds } from "../clock.ts";
import { backoff } from "../concurrency/backoff.ts";
import type { WebhookEndpointRow } from "../db/tables.ts";
import type { AttemptResult } from "../events/metrics/event_metrics.ts";

/** What an endpoint's recent attempts say about it: how much it may get, and whether it gets anything. */
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

/** How a new or resumed endpoint starts. */
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
 * An endpoint's health after an attempt that began at `startedAt`. In order: the bounds of parallel requests,
 * the breaker (opens after 5 failures in a row, or when half of at least 20 attempts within 60 s failed; a
 * failed probe doubles its time, 60 s to 15 min; any answer but a failure closes it; an attempt without a
 * request leaves both alone), and suspension (immediately when the receiver says it is gone; after 120 h
 * without a delivery; never of an endpoint that is paused).
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
  // The time before is kept and not how often the probe failed, so it counts as the first wait.
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
