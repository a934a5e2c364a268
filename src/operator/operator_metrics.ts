import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { Clock } from "../clock.ts";
import { showClockOffset } from "../concurrency/followed_clock.ts";
import { type Delegation, type Kind, kinds } from "./kinds.ts";
import { type QueueObserver, WORKERS } from "./queue.ts";
import { createQueueMetrics, createUrgentTimes, type UrgentTimes } from "./queue_metrics.ts";
import { conditionOf } from "./reconcile/conditions.ts";

import type { Resources } from "./resources.ts";

/** State of the local copy of one cluster resource. `activeAt` is a time of `performance.now()`. */
export type WatchState = {
  resource: string;
  isSynced: boolean;
  activeAt: number;
  lists: number;
  failures: number;
};

/**
 * Records the operator's activity as metrics. All labels come from closed sets, except the names of
 * Delegations in the expiry metric.
 */
export type OperatorMetrics = {
  queue: QueueObserver;
  urgent: UrgentTimes;
  /** Records that a comparison with the API found a difference that no change event had announced. */
  driftFound(kind: Kind): void;
  /** `result` is `ok` or a kind of failure. */
  apiAnswered(call: string, result: string, seconds: number): void;
  /** `code` is `<error>` if the cluster did not answer. */
  clusterAnswered(request: { code: string; method: string; host: string }): void;
  /** Records that this process leads over these objects, or with `undefined` that it no longer leads. */
  leads(resources: Pick<Resources, "list"> | undefined): void;
  leadLost(cause: "lost" | "superseded"): void;
  /** Records the result of the last sweep for delegations without an object. */
  swept(found: { state: "ok" | "held"; orphans: number }): void;
  watches(read: () => WatchState[]): void;
  /** Shows how far this machine's clock is from the clock that the operator follows. */
  follows(clock: Clock): void;
};

/** Name of the Lease that `leader_election_master_status` reports. */
export const LEASE_NAME = "deputize-operator";
const CALL_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20];
const WAIT_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300];

/** Registers the operator's metrics and returns their recorder. */
export function createOperatorMetrics(registry: Registry): OperatorMetrics {
  const registers = [registry];
  let led: Pick<Resources, "list"> | undefined;
  const drift = new Counter({
    name: "deputize_operator_drift_total",
    help: "Times that a comparison with the API found an object whose state there differs from its status",
    labelNames: ["kind"],
    registers,
  });
  const calls = new Histogram({
    name: "deputize_operator_api_call_seconds",
    help: "Duration of calls of the service's API by name and result: ok, refused, unavailable, unauthorized, superseded",
    labelNames: ["call", "result"],
    buckets: CALL_BUCKETS,
    registers,
  });
  const requests = new Counter({
    name: "rest_client_requests_total",
    help: "Requests of the Kubernetes API by status code, method and host",
    labelNames: ["code", "method", "host"],
    registers,
  });
  new Gauge({
    name: "leader_election_master_status",
    help: "1 while this process leads",
    labelNames: ["name"],
    registers,
    collect() {
      this.set({ name: LEASE_NAME }, led === undefined ? 0 : 1);
    },
  });
  const losses = new Counter({
    name: "deputize_operator_lead_losses_total",
    help: "Times that this process lost the leadership: it lost its lease, or the API knows a newer leader",
    labelNames: ["cause"],
    registers,
  });
  for (const cause of ["lost", "superseded"]) losses.inc({ cause }, 0);
  const orphans = new Gauge({
    name: "deputize_operator_orphans",
    help: "Delegations without an object that the last sweep found; state held: none is revoked until somebody confirms",
    labelNames: ["state"],
    registers,
  });
  const waits = new Histogram({
    name: "deputize_operator_urgent_seconds",
    help: "Time from when the operator first saw a revocation or a decision until it had carried it out",
    labelNames: ["what"],
    buckets: WAIT_BUCKETS,
    registers,
  });
  registerObjectMetrics(registry, () => led);
  return {
    queue: createQueueMetrics(registry, { workers: WORKERS }),
    urgent: createUrgentTimes((what, seconds) => waits.observe({ what }, seconds)),
    driftFound: (kind) => drift.inc({ kind }),
    apiAnswered: (call, result, seconds) => calls.observe({ call, result }, seconds),
    clusterAnswered: (request) => requests.inc(request),
    leads(resources) {
      led = resources;
      if (resources === undefined) orphans.reset();
    },
    leadLost: (cause) => losses.inc({ cause }),
    swept({ state, orphans: count }) {
      orphans.reset();
      orphans.set({ state }, count);
    },
    watches: (read) => registerWatchMetrics(registry, read),
    follows: (clock) => showClockOffset({ registry }, clock),
  };
}

function registerWatchMetrics(registry: Registry, read: () => WatchState[]): void {
  const common = { labelNames: ["resource"] as const, registers: [registry] };
  new Gauge({
    name: "deputize_operator_synced",
    help: "1 once all objects of a resource were read",
    ...common,
    collect() {
      for (const { resource, isSynced } of read()) this.set({ resource }, isSynced ? 1 : 0);
    },
  });
  new Gauge({
    name: "deputize_operator_watch_silence_seconds",
    help: "Time since a watch received anything; a healthy cluster sends a bookmark each minute",
    ...common,
    collect() {
      for (const { resource, activeAt } of read()) {
        this.set({ resource }, (performance.now() - activeAt) / 1000);
      }
    },
  });
  new Counter({
    name: "deputize_operator_lists_total",
    help: "Times that all objects of a resource were read",
    ...common,
    collect() {
      this.reset();
      for (const { resource, lists } of read()) this.inc({ resource }, lists);
    },
  });
  new Counter({
    name: "deputize_operator_watch_failures_total",
    help: "Times that reading or watching a resource failed",
    ...common,
    collect() {
      this.reset();
      for (const { resource, failures } of read()) this.inc({ resource }, failures);
    },
  });
}

/** Maximum number of Delegations with their own series. Those that expire first are included. */
const MAX_EXPIRIES = 10_000;

/** Registers gauges that count the objects at each scrape. They are empty while `led` returns `undefined`. */
export function registerObjectMetrics(
  registry: Registry,
  led: () => Pick<Resources, "list"> | undefined,
): void {
  new Gauge({
    name: "deputize_operator_objects",
    help: "Objects by kind and the reason of their condition Ready; only the leader reports them",
    labelNames: ["kind", "reason"],
    registers: [registry],
    collect() {
      this.reset();
      const resources = led();
      for (const kind of resources === undefined ? [] : kinds) {
        for (const { status } of resources?.list(kind) ?? []) {
          this.inc({ kind, reason: conditionOf(status, "Ready")?.reason ?? "Unknown" });
        }
      }
    },
  });
  new Gauge({
    name: "deputize_delegation_expiry_timestamp_seconds",
    help: "When the certificate of a Delegation in force ends, in Unix seconds; the 10,000 that end first",
    labelNames: ["namespace", "name"],
    registers: [registry],
    collect() {
      this.reset();
      const ends = (led()?.list("Delegation") ?? []).flatMap(endOf);
      ends.sort((left, right) => left.end - right.end);
      for (const { end, ...labels } of ends.slice(0, MAX_EXPIRIES)) this.set(labels, end);
    },
  });
}

function endOf({ metadata: { namespace, name }, status }: Delegation) {
  const end = Math.floor(Date.parse(status.expiresAt ?? "") / 1000);
  return status.certStatus === "Active" && Number.isFinite(end) ? [{ namespace, name, end }] : [];
}
