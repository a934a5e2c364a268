import { Registry } from "prom-client";
import { createOperatorMetrics, type OperatorMetrics } from "../../src/operator/operator_metrics.ts";

export function operatorMetrics(registry = new Registry()): OperatorMetrics {
  return createOperatorMetrics(registry);
}
