import { Registry } from "prom-client";
import { createOperatorMetrics, type OperatorMetrics } from "../../src/operator/operator_metrics.ts";

/** Creates the operator's metrics in a separate registry. */
export function operatorMetrics(registry = new Registry()): OperatorMetrics {
  return createOperatorMetrics(registry);
}
