import { systemClock } from "../clock.ts";
import type { Mode } from "./rules_file.ts";

/** The end of one call of a tool. It contains no argument, result, key or text of another party. */
export type CallRecord = {
  /** Absent for a name that neither a rule nor the server has. */
  tool: string | undefined;
  decision: "allow" | "open" | "refused";
  code: string;
  /** How the call ended at the server, if the server received it. */
  outcome: "executed" | "failed" | "unanswered" | undefined;
  agentId?: string | undefined;
  invocationId?: string | undefined;
  receiptId?: string | undefined;
  decisionMs: number;
  totalMs: number;
};

/** Writes the lines of a proxy, and counts for its metrics. */
export type Journal = {
  call(record: CallRecord): void;
  /** Notes a message other than a call that the proxy refused, or would refuse in `enforce`. */
  refused(reason: string): void;
  note(message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** Returns the metrics in Prometheus's text format. */
  metrics(): string;
};

const PREFIX = "deputize_mcp_proxy";
/** Upper limits of the histogram's buckets in seconds. */
const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const LONGEST_NAME = 128;
/** A client can send messages to refuse at any rate, so only this many lines are written each minute. */
const LINES_PER_MINUTE = 60;
const MINUTE_MS = 60_000;

/** Creates a journal that writes one JSON object per line. */
export function createJournal(server: string, mode: Mode, write: (line: string) => void): Journal {
  const counts = new Map<string, number>();
  const durations = BUCKETS.map(() => 0);
  let [measured, seconds] = [0, 0];
  let minute = { since: -MINUTE_MS, lines: 0 };
  const unenforced = mode === "observe" ? { not_enforced: true } : {};

  function line(msg: string, fields: Readonly<Record<string, unknown>>): void {
    const time = systemClock.now().toISOString();
    write(`${JSON.stringify({ time, msg, server, mode, ...fields })}\n`);
  }

  function count(name: string, labels: Readonly<Record<string, string>>): void {
    const text = Object.entries({ server, ...labels }).map(([label, value]) => `${label}=${quoted(value)}`);
    const series = `${PREFIX}_${name}{${text.join(",")}}`;
    counts.set(series, (counts.get(series) ?? 0) + 1);
  }

  return {
    call({ tool, decision, code, decisionMs, totalMs, ...others }) {
      count("calls_total", { tool: tool?.slice(0, LONGEST_NAME) ?? "", decision, code });
      measured += 1;
      seconds += decisionMs / 1_000;
      BUCKETS.forEach((limit, index) => {
        if (decisionMs / 1_000 <= limit) durations[index] = (durations[index] ?? 0) + 1;
      });
      line("call", {
        ...{ tool: tool?.slice(0, LONGEST_NAME), decision, code, ...unenforced },
        ...{ outcome: others.outcome, agent_id: others.agentId, invocation_id: others.invocationId },
        receipt_id: others.receiptId,
        decision_ms: Math.round(decisionMs),
        total_ms: Math.round(totalMs),
      });
    },
    refused(reason) {
      count("refused_messages_total", { reason });
      const now = performance.now();
      if (now - minute.since >= MINUTE_MS) minute = { since: now, lines: 0 };
      minute.lines += 1;
      if (minute.lines <= LINES_PER_MINUTE) line("refused message", { reason, ...unenforced });
    },
    note: (message, fields = {}) => line(message, fields),
    metrics() {
      const all = [...counts].map(([series, value]) => `${series} ${value}`);
      const label = `server=${quoted(server)}`;
      const name = `${PREFIX}_decision_seconds`;
      return [
        `# TYPE ${PREFIX}_enforced gauge`,
        `${PREFIX}_enforced{${label}} ${mode === "enforce" ? 1 : 0}`,
        ...["calls_total", "refused_messages_total"].flatMap((each) => [
          `# TYPE ${PREFIX}_${each} counter`,
          ...all.filter((series) => series.startsWith(`${PREFIX}_${each}{`)),
        ]),
        `# TYPE ${name} histogram`,
        ...BUCKETS.map((limit, index) => `${name}_bucket{${label},le="${limit}"} ${durations[index]}`),
        `${name}_bucket{${label},le="+Inf"} ${measured}`,
        `${name}_sum{${label}} ${seconds}`,
        `${name}_count{${label}} ${measured}`,
        "",
      ].join("\n");
    },
  };
}

function quoted(value: string): string {
  return `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;
}
