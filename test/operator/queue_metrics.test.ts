import { Registry } from "prom-client";
import { describe, expect, test } from "vitest";
import type { Key } from "../../src/operator/kinds.ts";
import { createQueue, type Visit } from "../../src/operator/queue.ts";
import { createQueueMetrics } from "../../src/operator/queue_metrics.ts";
import { until } from "../support/process.ts";

const key = (name: string, kind: Key["kind"] = "Agent"): Key => ({ kind, namespace: "default", name });

describe("the queue's metrics", () => {
  const of = async (registry: Registry, name: string, labels: object) => {
    const metric = await registry.getSingleMetric(name)?.get();
    const values = (metric?.values ?? []) as { labels: object; metricName?: string; value: number }[];
    const found = values.filter(({ labels: its, metricName = name }) => {
      const isSame = Object.entries(labels).every(
        ([label, value]) => (its as { [l: string]: unknown })[label] === value,
      );
      return isSame && (metricName === name || metricName === `${name}_count`) && !("le" in its);
    });
    return found[0]?.value;
  };

  test("have the names and labels of controller-runtime and client-go", async () => {
    const registry = new Registry();
    const observer = createQueueMetrics(registry, { workers: 10 });
    observer.waits(key("a"));
    observer.starts(key("a"));
    observer.ends(key("a"), {});
    const names = (await registry.getMetricsAsJSON()).map(({ name, values }) => {
      const labels = new Set((values as { labels: object }[]).flatMap(({ labels }) => Object.keys(labels)));
      labels.delete("le");
      return `${name}{${[...labels].sort().join()}}`;
    });
    // controller-runtime v0.25.2: pkg/internal/controller/metrics, pkg/internal/metrics.
    expect(names.sort()).toEqual([
      "controller_runtime_active_workers{controller}",
      "controller_runtime_max_concurrent_reconciles{controller}",
      "controller_runtime_reconcile_errors_total{}",
      "controller_runtime_reconcile_time_seconds{controller}",
      "controller_runtime_reconcile_total{controller,result}",
      "deputize_operator_visits_delayed_total{kind}",
      "workqueue_adds_total{controller,name}",
      "workqueue_depth{controller,name}",
      "workqueue_longest_running_processor_seconds{controller,name}",
      "workqueue_queue_duration_seconds{controller,name}",
      "workqueue_retries_total{}",
      "workqueue_unfinished_work_seconds{controller,name}",
      "workqueue_work_duration_seconds{controller,name}",
    ]);
  });

  test("count waiting, running, successful, failed and requeued keys", async () => {
    const registry = new Registry();
    const ends: ((visit: Visit) => void)[] = [];
    const queue = createQueue({
      workers: 1,
      observer: createQueueMetrics(registry, { workers: 1 }),
      run: () => new Promise((resolve) => ends.push(resolve)),
      onError: () => undefined,
      random: () => 1,
    });
    for (const name of ["a", "b", "b", "c"]) queue.add(key(name));
    queue.add(key("x", "Platform"));
    const agents = { controller: "agent" };
    expect(await of(registry, "workqueue_adds_total", agents)).toBe(3);
    expect(await of(registry, "workqueue_depth", agents)).toBe(2);
    expect(await of(registry, "workqueue_depth", { controller: "platform" })).toBe(1);
    expect(await of(registry, "controller_runtime_active_workers", agents)).toBe(1);
    expect(await of(registry, "workqueue_unfinished_work_seconds", agents)).toBeGreaterThan(0);
    expect(await of(registry, "workqueue_longest_running_processor_seconds", agents)).toBeGreaterThan(0);
    ends[0]?.({});
    await until("b runs", () => ends.length === 2);
    ends[1]?.({ retry: true });
    await until("c runs", () => ends.length === 3);
    ends[2]?.({ afterMs: 60_000 });
    await until("x runs", () => ends.length === 4);
    const reconciled = (result: string) =>
      of(registry, "controller_runtime_reconcile_total", { ...agents, result });
    expect(await Promise.all(["success", "error", "requeue_after"].map(reconciled))).toEqual([1, 1, 1]);
    for (const gauge of [
      "controller_runtime_active_workers",
      "workqueue_unfinished_work_seconds",
      "workqueue_longest_running_processor_seconds",
    ]) {
      expect(await of(registry, gauge, agents), gauge).toBe(0);
    }
    expect(await of(registry, "controller_runtime_reconcile_errors_total", agents)).toBe(1);
    expect(await of(registry, "workqueue_retries_total", agents)).toBe(2);
    expect(await of(registry, "controller_runtime_reconcile_time_seconds", agents)).toBe(3);
    expect(await of(registry, "workqueue_queue_duration_seconds", agents)).toBe(3);
    queue.add(key("y"));
    ends[3]?.({});
    await queue.stop();
    expect(await of(registry, "workqueue_depth", agents)).toBe(0);
  });

  test("count a key that ran too often as delayed, and not as waiting for a worker", async () => {
    const registry = new Registry();
    const queue = createQueue({
      workers: 1,
      observer: createQueueMetrics(registry, { workers: 1 }),
      pace: { take: () => ({ admitted: false, remaining: 0, waitMs: 60_000, resetMs: 60_000 }) },
      run: async () => ({}),
      onError: () => undefined,
    });
    const delayed = () => of(registry, "deputize_operator_visits_delayed_total", { kind: "Platform" });
    expect(await delayed()).toBe(0);
    queue.add(key("x", "Platform"));
    expect(await delayed()).toBe(1);
    expect(await of(registry, "workqueue_depth", { controller: "platform" })).toBe(0);
    await queue.stop();
  });
});
