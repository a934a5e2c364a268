import { elapsedClock } from "../clock.ts";
import { ClusterRefused } from "../kubernetes/cluster_error.ts";
import { createPace } from "../rates/pace.ts";
import type { OperatorContext } from "./context.ts";
import { concerned, isUrgent } from "./fan_out.ts";
import { type AnyObject, FINALIZER, type Key, keyOf, keyText } from "./kinds.ts";
import { startPoll } from "./poll.ts";
import { createQueue, RUNS_PER_MINUTE, type Visit, WORKERS } from "./queue.ts";
import { reconcileAgent } from "./reconcile/agent.ts";
import { reconcileDelegation } from "./reconcile/delegation.ts";
import { createPlatformReconciler } from "./reconcile/platform.ts";
import { reportFailedWrite, reportNotSelected } from "./reconcile/report_status.ts";
import { allObjects, isServed } from "./resources.ts";

/** Runs the reconcilers for all objects. */
export type Controller = {
  /** Resolves when every object that existed at the start has been reconciled once. */
  firstPass: Promise<void>;
  /** Starts no further work, and resolves when the work in progress has finished. */
  stop(): Promise<void>;
};

/**
 * Reconciles all objects of the copy, and then every object that changes, together with the objects that
 * refer to it. Starts no reconciliation after `isHeld` returns false.
 */
export function startController(context: OperatorContext, { isHeld }: { isHeld(): boolean }): Controller {
  const { resources, log, metrics, tracing } = context;
  const reconcilePlatform = createPlatformReconciler();

  async function run(key: Key, failures: number): Promise<Visit> {
    const object: AnyObject | undefined = resources.get(key.kind, key.namespace, key.name);
    if (!isHeld() || object === undefined) return {};
    try {
      return await reconcile(object, failures);
    } catch (error) {
      if (error instanceof ClusterRefused) return reportFailedWrite(context, object, error);
      throw error;
    }
  }

  async function reconcile(object: AnyObject, failures: number): Promise<Visit> {
    if (!isServed(resources, object)) return reportNotSelected(context, object);
    if (needsFinalizer(object)) {
      await resources.setFinalizer(object, true);
      return {};
    }
    switch (object.kind) {
      case "Platform":
        return reconcilePlatform(context, object, failures);
      case "Agent":
        return reconcileAgent(context, object, failures);
      case "Delegation":
        return reconcileDelegation(context, object, failures);
    }
  }

  const firstPass = Promise.withResolvers<void>();
  const unseen = new Set(allObjects(resources).map((object) => keyText(keyOf(object))));
  function see(key: Key): void {
    unseen.delete(keyText(key));
    if (unseen.size === 0) firstPass.resolve();
  }
  if (unseen.size === 0) firstPass.resolve();

  const queue = createQueue({
    workers: WORKERS,
    observer: metrics.queue,
    pace: createPace({ perMinute: RUNS_PER_MINUTE, clock: elapsedClock }),
    run: (key, failures) => tracing.visit(key, () => run(key, failures)).finally(() => see(key)),
    onError: (key, error) =>
      log.error({ object: keyText(key), err: error }, "the object could not be reconciled"),
  });
  const add = (object: AnyObject) => {
    metrics.urgent.sees(keyOf(object), object);
    queue.add(keyOf(object), isUrgent(object));
  };
  const unsubscribe = resources.subscribe((change) => {
    const { kind, namespace, name } = change;
    if (kind === "Delegation") {
      metrics.urgent.sees({ kind, namespace, name }, resources.get(kind, namespace, name));
    }
    for (const object of concerned(resources, change)) add(object);
  });
  for (const object of allObjects(resources)) add(object);
  const poll = startPoll(context, {
    enqueue(key, urgent) {
      queue.forget(key);
      queue.add(key, urgent);
    },
  });
  return {
    firstPass: firstPass.promise,
    async stop() {
      unsubscribe();
      poll.stop();
      metrics.urgent.stops();
      await queue.stop();
    },
  };
}

/**
 * Returns whether to add the finalizer, which must precede the first call to the API. Without the finalizer,
 * Kubernetes could remove the object before the operator has cleaned up.
 */
function needsFinalizer({ metadata }: AnyObject): boolean {
  return metadata.deletionTimestamp === undefined && !metadata.finalizers.includes(FINALIZER);
}
