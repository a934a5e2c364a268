import { Counter, Gauge } from "prom-client";
import type { Metrics } from "../../metrics.ts";

/** What became of an attempt: sent, to be tried again, or given up. */
export type NoticeOutcome = "sent" | "retried" | "failed";

/** The metrics of notices. */
export type NoticeMetrics = {
  /** How many wait, and for how many seconds the oldest one has. */
  waiting(count: number, oldestSeconds: number): void;
  attempt(outcome: NoticeOutcome): void;
};

/** Adds them to a process's own. An oldest one that ages says that the mail server takes nothing. */
export function createNoticeMetrics({ registry }: Pick<Metrics, "registry">): NoticeMetrics {
  const registers = [registry];
  const waiting = new Gauge({
    name: "deputize_notices_waiting",
    help: "Notices to account owners that wait to be mailed",
    registers,
  });
  const oldest = new Gauge({
    name: "deputize_notices_oldest_seconds",
    help: "Seconds that the oldest notice has waited to be mailed",
    registers,
  });
  const attempts = new Counter({
    name: "deputize_notice_attempts_total",
    help: "Attempts to mail a notice",
    labelNames: ["outcome"],
    registers,
  });
  return {
    waiting(count, oldestSeconds) {
      waiting.set(count);
      oldest.set(oldestSeconds);
    },
    attempt: (outcome) => attempts.inc({ outcome }),
  };
}
