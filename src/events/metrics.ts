import { Gauge, Histogram } from "prom-client";
import type { Metrics } from "../metrics.ts";
import type { AttemptResult } from "./webhooks/attempt_result.ts";

/** What the worker counts. */
export type EventMetrics = {
  /** How many events wait in the outbox, and for how many seconds the oldest one has. */
  outbox(waiting: number, oldestSeconds: number): void;
  /** One finished request to a callback URL. */
  attempt(verdict: AttemptResult, seconds: number): void;
};

/**
 * Adds the worker's measurements to a process's own. An outbox that ages says that the relay does not keep
 * up.
 */
export function createEventMetrics({ registry }: Pick<Metrics, "registry">): EventMetrics {
  const registers = [registry];
  const waiting = new Gauge({
    name: "deputize_outbox_events",
    help: "Events that wait to be published",
    registers,
  });
  const oldest = new Gauge({
    name: "deputize_outbox_oldest_seconds",
    help: "Seconds that the oldest event has waited to be published",
    registers,
  });
  const attempts = new Histogram({
    name: "deputize_webhook_attempt_seconds",
    help: "Seconds from the start of a webhook request to its result",
    labelNames: ["outcome"],
    buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15],
    registers,
  });
  return {
    outbox(count, oldestSeconds) {
      waiting.set(count);
      oldest.set(oldestSeconds);
    },
    attempt: (outcome, seconds) => attempts.observe({ outcome }, seconds),
  };
}
