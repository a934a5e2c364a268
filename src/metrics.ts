import { collectDefaultMetrics, Histogram, Registry } from "prom-client";

/**
 * What one process counts. Labels name kinds of things, never single ones: no id, address or key is a label.
 */
export type Metrics = {
  registry: Registry;
  /** Seconds from a request's head to its answer, by route id and status. */
  httpRequests: Histogram<"route" | "status">;
};

/**
 * A registry of this process's own. With `processMetrics` it also shows memory, event loop and garbage
 * collection.
 */
export function createMetrics({ processMetrics = false }: { processMetrics?: boolean } = {}): Metrics {
  const registry = new Registry();
  if (processMetrics) collectDefaultMetrics({ register: registry });
  return {
    registry,
    httpRequests: new Histogram({
      name: "deputize_http_request_seconds",
      help: "Seconds from a request's head to its answer",
      labelNames: ["route", "status"],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
      registers: [registry],
    }),
  };
}
