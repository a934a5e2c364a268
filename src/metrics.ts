import { Counter, collectDefaultMetrics, Histogram, Registry } from "prom-client";
import { errorCodes } from "./errors.ts";

/** The metrics of one process. Labels name fixed kinds of things. An id, address or key is never a label. */
export type Metrics = {
  registry: Registry;
  /** Seconds between a request's headers and its response, by route id and status. */
  httpRequests: Histogram<"route" | "status">;
  /** Error responses, by code. */
  httpErrors: Counter<"code">;
  /** Recorded decisions by value. */
  proofDecisions: Counter<"decision">;
  /** Refused actions by action, because they were carried out too often. */
  actionsLimited: Counter<"action">;
};

const DECISIONS = ["allow", "deny", "indeterminate"];

/** Creates metrics in their own registry. `processMetrics` adds memory, event loop and garbage collection. */
export function createMetrics({ processMetrics = false }: { processMetrics?: boolean } = {}): Metrics {
  const registry = new Registry();
  const registers = [registry];
  if (processMetrics) collectDefaultMetrics({ register: registry });
  const httpErrors = new Counter({
    name: "deputize_http_errors_total",
    help: "Error answers of operations, by code",
    labelNames: ["code"],
    registers,
  });
  const proofDecisions = new Counter({
    name: "deputize_proof_decisions_total",
    help: "Decisions on proofs recorded by this process: allow, deny or indeterminate",
    labelNames: ["decision"],
    registers,
  });
  // Counters start at 0, so that the first event counts as an increase.
  for (const code of Object.keys(errorCodes)) httpErrors.inc({ code }, 0);
  for (const decision of DECISIONS) proofDecisions.inc({ decision }, 0);
  return {
    registry,
    httpRequests: new Histogram({
      name: "deputize_http_request_seconds",
      help: "Seconds from the head of a request to its answer",
      labelNames: ["route", "status"],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
      registers,
    }),
    httpErrors,
    proofDecisions,
    actionsLimited: new Counter({
      name: "deputize_actions_limited_total",
      help: "Actions that were refused, because they were carried out too often for the same object or person",
      labelNames: ["action"],
      registers,
    }),
  };
}
