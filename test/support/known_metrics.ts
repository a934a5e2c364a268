import { pino } from "pino";
import type { Registry } from "prom-client";
import { showClockOffset as showVaultClockOffset } from "../../keyvault/db/followed_clock.ts";
import { createMetrics as createVaultMetrics, showState } from "../../keyvault/metrics.ts";
import { createReconciliation } from "../../src/accounts/ledger/reconcile.ts";
import { createNoticeMetrics } from "../../src/accounts/notices/sender.ts";
import { systemClock } from "../../src/clock.ts";
import { showClockOffset } from "../../src/concurrency/followed_clock.ts";
import type { Database } from "../../src/db/database.ts";
import { createEventMetrics } from "../../src/events/event_metrics.ts";
import { eventStates } from "../../src/events/event_states.ts";
import { lagState } from "../../src/events/kafka/lag.ts";
import { createMeasurements } from "../../src/events/measurements.ts";
import { showReadiness } from "../../src/http/server/health.ts";
import { createMetrics } from "../../src/metrics.ts";
import { createDecisionQueue } from "../../src/proofs/admission/admission.ts";
import { showCertificateEnd } from "../../src/vault/credentials.ts";
import { operatorMetrics } from "./operator_metrics.ts";

export type Part = "api" | "worker" | "operator" | "keyvault";

/** `labels` are the labels that the metric's series may have. */
export type KnownMetric = { name: string; type: string; labels: string[]; parts: Part[] };

/** Metrics of kube-state-metrics that the alert rules use, with the labels that the rules use. */
export const OTHERS: Record<string, string[]> = {
  kube_job_status_failed: ["namespace", "job_name", "reason"],
  kube_job_status_succeeded: ["namespace", "job_name"],
};

/** Matches metric names: our own, and those of other programs that rules and panels use. */
const NAMES =
  /(?<!["\w])(?:deputize|keyvault|controller_runtime|workqueue|rest_client|leader_election|kube|process|nodejs)_[a-z_0-9]+/g;

/** Returns the metric names in a string. Ignores a name at the start of a quoted value. */
export function metricsIn(text: string): string[] {
  return [...text.matchAll(NAMES)].map(([name]) => name);
}

export function labelsIn(text: string): string[] {
  return [...text.matchAll(/([a-z_]+)[!=]~?"/g)].map(([, name = ""]) => name);
}

/** Returns all metrics, from the functions that register them. */
export function knownMetrics(): KnownMetric[] {
  const found = new Map<string, KnownMetric>();
  for (const [part, registry] of Object.entries(registries()) as [Part, Registry][]) {
    for (const metric of registry.getMetricsAsArray()) {
      const {
        name,
        type,
        labelNames: labels,
      } = metric as unknown as {
        name: string;
        type: string;
        labelNames: string[];
      };
      const parts = [...(found.get(name)?.parts ?? []), part];
      found.set(name, { name, type, labels, parts });
    }
  }
  return [...found.values()];
}

/** Returns the labels of each Prometheus series by the series' name. */
export function seriesOf(metrics: readonly KnownMetric[]): Map<string, string[]> {
  return new Map(
    metrics.flatMap(({ name, type, labels }) =>
      type === "histogram"
        ? [
            [`${name}_count`, labels] as const,
            [`${name}_sum`, labels] as const,
            [`${name}_bucket`, [...labels, "le"]] as const,
          ]
        : [[name, labels] as const],
    ),
  );
}

export function metricOf(series: string): string {
  return series.replace(/(?<=_seconds)_(?:count|sum|bucket)$/, "");
}

function registries(): Record<Part, Registry> {
  const [clock, log, database] = [systemClock, pino({ level: "silent" }), {} as Database];
  const role = (name: Part) => {
    const metrics = createMetrics({ processMetrics: true });
    showReadiness(metrics, name, async () => true);
    showClockOffset(metrics, clock);
    return metrics;
  };
  const api = role("api");
  showCertificateEnd(api, "none");
  createNoticeMetrics(api);
  createDecisionQueue(api);

  const worker = role("worker");
  createEventMetrics({ registry: worker.registry, clock });
  createReconciliation({ database, clock, log, metrics: worker });
  const measurements = createMeasurements({ registry: worker.registry, clock, log });
  for (const state of [...eventStates(database, []), lagState({} as never, "", [])]) measurements.add(state);

  const operator = role("operator");
  operatorMetrics(operator.registry).watches(() => []);

  const keyvault = createVaultMetrics();
  showVaultClockOffset(keyvault, clock);
  const material = () => ({ cert: Buffer.alloc(0), authorities: [] });
  const token = { sealed: () => undefined, pinFlags: () => undefined };
  showState(keyvault, { readiness: { check: async () => {} }, token, material });
  return {
    api: api.registry,
    worker: worker.registry,
    operator: operator.registry,
    keyvault: keyvault.registry,
  };
}
