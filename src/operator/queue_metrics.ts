import { Counter, exponentialBuckets, Gauge, Histogram, type Registry } from "prom-client";
import { type Urgency, urgencyOf } from "./fan_out.ts";
import { type AnyObject, type Key, type Kind, keyText, kinds } from "./kinds.ts";
import { type QueueObserver, resultOf } from "./queue.ts";

/** The buckets of controller-runtime, so that its dashboards also work for this operator. */
const RECONCILE_BUCKETS = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5,
  1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
];
const QUEUE_BUCKETS = exponentialBuckets(1e-8, 10, 12);

/** `at` is when the wait or run began (`performance.now()`). */
type Since = { kind: Kind; at: number };

/**
 * Registers metrics for the queue and its workers, under controller-runtime's and client-go's names and
 * labels. Returns the observer that fills them.
 */
export function createQueueMetrics(registry: Registry, { workers }: { workers: number }): QueueObserver {
  const registers = [registry];
  const ofController = { labelNames: ["controller"] as const, registers };
  const ofQueue = { labelNames: ["name", "controller"] as const, registers };
  const waiting = new Map<string, Since>();
  const running = new Map<string, Since>();

  const total = new Counter({
    name: "controller_runtime_reconcile_total",
    help: "Reconciliations per controller and result: success, requeue_after, error",
    labelNames: ["controller", "result"] as const,
    registers,
  });
  const errors = new Counter({
    name: "controller_runtime_reconcile_errors_total",
    help: "Reconciliations per controller that are tried again because they failed",
    ...ofController,
  });
  const time = new Histogram({
    name: "controller_runtime_reconcile_time_seconds",
    help: "Length of a reconciliation per controller",
    buckets: RECONCILE_BUCKETS,
    ...ofController,
  });
  new Gauge({
    name: "controller_runtime_max_concurrent_reconciles",
    help: "Workers; all controllers share them",
    ...ofController,
    collect() {
      for (const kind of kinds) this.set({ controller: nameOf(kind) }, workers);
    },
  });
  new Gauge({
    name: "controller_runtime_active_workers",
    help: "Workers that are busy per controller",
    ...ofController,
    collect() {
      for (const kind of kinds) this.set({ controller: nameOf(kind) }, of(running, kind).length);
    },
  });
  new Gauge({
    name: "workqueue_depth",
    help: "Objects that wait for a worker",
    ...ofQueue,
    collect() {
      for (const kind of kinds) this.set(labelsOf(kind), of(waiting, kind).length);
    },
  });
  const adds = new Counter({ name: "workqueue_adds_total", help: "Objects added to the queue", ...ofQueue });
  const queued = new Histogram({
    name: "workqueue_queue_duration_seconds",
    help: "How long an object waits for a worker",
    buckets: QUEUE_BUCKETS,
    ...ofQueue,
  });
  const worked = new Histogram({
    name: "workqueue_work_duration_seconds",
    help: "How long a worker is busy with an object",
    buckets: QUEUE_BUCKETS,
    ...ofQueue,
  });
  new Gauge({
    name: "workqueue_unfinished_work_seconds",
    help: "Total seconds that the running reconciliations have taken so far",
    ...ofQueue,
    collect() {
      for (const kind of kinds) this.set(labelsOf(kind), sum(of(running, kind)));
    },
  });
  new Gauge({
    name: "workqueue_longest_running_processor_seconds",
    help: "How long the longest running reconciliation has taken so far",
    ...ofQueue,
    collect() {
      for (const kind of kinds) this.set(labelsOf(kind), Math.max(0, ...of(running, kind)));
    },
  });
  const retries = new Counter({
    name: "workqueue_retries_total",
    help: "Objects that were added after a delay",
    ...ofQueue,
  });

  const delayed = new Counter({
    name: "deputize_operator_visits_delayed_total",
    help: "Times that an object had to wait because it was visited too often; somebody may undo the operator's writes",
    labelNames: ["kind"] as const,
    registers,
  });
  // The counter starts at 0, so that the first event counts as an increase.
  for (const kind of kinds) delayed.inc({ kind }, 0);

  return {
    waits(key) {
      if (waiting.has(keyText(key))) return;
      adds.inc(labelsOf(key.kind));
      waiting.set(keyText(key), { kind: key.kind, at: performance.now() });
    },
    starts(key) {
      const since = waiting.get(keyText(key));
      waiting.delete(keyText(key));
      if (since !== undefined) queued.observe(labelsOf(key.kind), secondsSince(since));
      running.set(keyText(key), { kind: key.kind, at: performance.now() });
    },
    ends(key, visit) {
      const since = running.get(keyText(key));
      running.delete(keyText(key));
      const controller = nameOf(key.kind);
      if (since !== undefined) {
        worked.observe(labelsOf(key.kind), secondsSince(since));
        time.observe({ controller }, secondsSince(since));
      }
      const result = resultOf(visit);
      total.inc({ controller, result });
      if (visit.retry) errors.inc({ controller });
      if (result !== "success") retries.inc(labelsOf(key.kind));
    },
    delays(key) {
      waiting.delete(keyText(key));
      delayed.inc({ kind: key.kind });
    },
    stops() {
      waiting.clear();
    },
  };
}

function nameOf(kind: Kind): string {
  return kind.toLowerCase();
}

function labelsOf(kind: Key["kind"]): { name: string; controller: string } {
  return { name: nameOf(kind), controller: nameOf(kind) };
}

/** Returns for how many seconds each key of a kind has waited or run. */
function of(keys: Map<string, Since>, kind: Kind): number[] {
  return [...keys.values()].filter((since) => since.kind === kind).map(secondsSince);
}

function secondsSince({ at }: Since): number {
  return (performance.now() - at) / 1000;
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** Measures how long urgent work takes. */
export type UrgentTimes = {
  /** Called with each new version of an object, or with `undefined` when the object is gone. */
  sees(key: Key, object: AnyObject | undefined): void;
  /** Discards the measurements in progress. */
  stops(): void;
};

/** Measures urgent work, in seconds from when the operator first sees the work until the work is done. */
export function createUrgentTimes(observe: (urgency: Urgency, seconds: number) => void): UrgentTimes {
  const begun = new Map<string, { urgency: Urgency; at: number }>();
  return {
    sees(key, object) {
      if (key.kind !== "Delegation") return;
      const id = keyText(key);
      const urgency = object?.kind === "Delegation" ? urgencyOf(object) : undefined;
      const before = begun.get(id);
      if (before?.urgency === urgency) return;
      begun.delete(id);
      if (urgency !== undefined) {
        begun.set(id, { urgency, at: performance.now() });
      } else if (before !== undefined) {
        observe(before.urgency, (performance.now() - before.at) / 1000);
      }
    },
    stops: () => begun.clear(),
  };
}
