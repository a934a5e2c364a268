import { setTimeout as sleep } from "node:timers/promises";
import type { Outcome } from "./authority.ts";
import { exchange } from "./service/exchange.ts";
import type { ReadSettings } from "./settings.ts";

/** The outcome of an operation that the service allowed. */
export type OutcomeReport = {
  invocationId: string;
  receiptId: string;
  outcome: Outcome;
  detail: string | undefined;
  occurredAt: Date;
};

/** Reports outcomes in the background. `flush` waits for all unfinished reports. */
export type OutcomeReporter = { report(report: OutcomeReport): void; flush(): Promise<void> };

const PAUSES_MS = [0, 500, 2_000];
const LONGEST_DETAIL = 500;

/**
 * Creates a reporter that sends each outcome until the service accepts it, at most three times. A repeated
 * report is safe, because the service gives the same response to it. The reporter gives up early if the
 * response would stay the same. When it gives up, it calls `onFault`.
 */
export function createOutcomeReporter(
  settings: Pick<ReadSettings, "address" | "header" | "apiKey" | "agent" | "timeoutMs" | "onFault">,
): OutcomeReporter {
  const unfinished = new Set<Promise<void>>();

  async function attempt({ invocationId, receiptId, outcome, detail, occurredAt }: OutcomeReport) {
    const answered = await exchange({
      url: settings.address(`invocations/${encodeURIComponent(invocationId)}/outcome`),
      headers: { [settings.header("api-key")]: settings.apiKey() },
      body: JSON.stringify({
        outcome,
        receipt_id: receiptId,
        ...(detail === undefined ? {} : { detail: plain(detail) }),
        occurred_at: occurredAt.toISOString(),
      }),
      timeoutMs: settings.timeoutMs,
      agent: settings.agent,
    });
    return answered.answered ? answered.status : undefined;
  }

  async function deliver(report: OutcomeReport): Promise<void> {
    let status: number | undefined;
    for (const pause of PAUSES_MS) {
      if (pause > 0) await sleep(pause);
      status = await attempt(report).catch(() => undefined);
      if (status === 200) return;
      if (status !== undefined && status !== 429 && status < 500) break;
    }
    const { invocationId, outcome } = report;
    settings.onFault({ kind: "outcome_not_reported", invocationId, outcome, status });
  }

  return {
    report(report) {
      const delivery = deliver(report)
        .catch(() => undefined)
        .finally(() => unfinished.delete(delivery));
      unfinished.add(delivery);
    },
    async flush() {
      await Promise.all(unfinished);
    },
  };
}

/** Converts a detail to a form that the service accepts: well-formed, short, without control characters. */
function plain(detail: string): string {
  return detail
    .normalize("NFC")
    .replaceAll(/\p{Cc}/gu, " ")
    .slice(0, LONGEST_DETAIL)
    .toWellFormed();
}
