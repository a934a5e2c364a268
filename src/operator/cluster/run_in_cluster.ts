import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Clock } from "../../clock.ts";
import { type ClusterOperatorConfig, ConfigError, StartError } from "../../config.ts";
import { durationSeconds } from "../../input/durations.ts";
import { openAccess } from "../../kubernetes/access.ts";
import { type ClusterAnswer, createClusterClient, NO_ANSWER } from "../../kubernetes/client.ts";
import { pause } from "../../kubernetes/pause.ts";
import type { Logger } from "../../log.ts";
import type { ApiTime } from "../api_client.ts";
import type { Operator } from "../context.ts";
import { type Leadership, startLeadership, startTerm, termOptions } from "../leader_terms.ts";
import { LEASE_NAME, type OperatorMetrics, type WatchState } from "../operator_metrics.ts";
import type { Tracing } from "../tracing.ts";
import { createFaultReporter } from "./bindings.ts";
import { establishClusterId } from "./cluster_identity.ts";
import { createClusterEvents } from "./events.ts";
import { createClusterLease, createLeaseElector } from "./lease_election.ts";
import { openCluster } from "./open_cluster.ts";
import { createSweepRecords } from "./sweep_records.ts";

type Options = {
  config: ClusterOperatorConfig;
  clock: Clock;
  log: Logger;
  metrics: OperatorMetrics;
  tracing: Tracing;
  apiTime: ApiTime;
  holder: string;
  /** Called once if the operator must not run. It has written nothing. */
  fatal(error: StartError): void;
  sweepTimes?: SweepTimes | undefined;
};

/** For tests: when the operator sweeps for delegations without an object, in milliseconds. */
export type SweepTimes = { firstMs: number; everyMs: number; endedEveryMs?: number };

/** Timeout of calls for the lease. A later answer could not save the leadership. */
const LEASE_DEADLINE_MS = 5_000;
/** How long a stop waits for work in progress before it aborts the calls. */
const DRAIN_MS = 15_000;

/**
 * Runs the operator in a cluster: reads all objects, runs for leader, and works while it leads. If the
 * cluster does not answer, the operator waits. Throws `StartError` if no cluster is configured. Calls `fatal`
 * if the cluster records another cluster id.
 */
export async function runInCluster(options: Options): Promise<Operator> {
  const { config, clock, log, metrics, tracing, apiTime, holder, fatal, sweepTimes } = options;
  const access = await openAccess({ file: config.KUBECONFIG, context: config.KUBE_CONTEXT, clock });
  const namespace = config.OPERATOR_NAMESPACE ?? access.namespace;
  if (namespace === undefined) {
    throw new ConfigError(
      "Settings are missing or wrong:\n  OPERATOR_NAMESPACE: is required, as the kubeconfig's context names none",
    );
  }
  const { WATCH_NAMESPACES: watched, NAMESPACE_SELECTOR: selector } = config;
  const liveness = createLiveness(() => resources.watches());
  const onAnswer = (answer: ClusterAnswer) => {
    metrics.clusterAnswered(answer);
    if (answer.code !== NO_ANSWER) liveness.answered();
  };
  const resources = await openCluster({ access, namespace, watched, selector, clock, log, onAnswer });
  const client = await createClusterClient({ access, deadlineMs: LEASE_DEADLINE_MS, onAnswer });
  metrics.watches(resources.watches);
  const events = createClusterEvents(client, clock);
  const lease = createClusterLease({ client, namespace, name: LEASE_NAME, holder, clock });
  const elector = createLeaseElector({ lease, log });
  const records = createSweepRecords(client, namespace);
  const sweeps = { records, graceMs: msOf(config.ORPHAN_GRACE), watched, ...sweepTimes };
  const ttlMs = msOf(config.ENDED_TTL);
  const ended =
    ttlMs === undefined ? undefined : { ttlMs, remove: resources.remove, everyMs: sweepTimes?.endedEveryMs };
  const faults = createFaultReporter((configMap, message) =>
    events.record(configMap, { type: "Warning", reason: "FaultyBinding", message }),
  );
  const leaseObject = {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: { name: LEASE_NAME, namespace },
  };
  const stopping = new AbortController();
  const identity = {
    ...{ client, namespace, log },
    configured: config.CLUSTER_ID,
    signal: stopping.signal,
  };
  let clusterId: string | undefined;
  let leadership: Leadership | undefined;
  let isSynced = false;

  async function start(): Promise<void> {
    // Comes first, so that an operator with a wrong id reads no objects, writes nothing and is never ready.
    const established = await establishClusterId(identity);
    if (established === undefined || stopping.signal.aborted) return;
    const { id, record } = established;
    clusterId = id;
    await resources.start();
    isSynced = true;
    log.info("all objects of the cluster are read");
    if (stopping.signal.aborted) return;
    const term = {
      ...termOptions(config, { resources, apiTime, log, metrics, tracing, clusterId: id, holder }),
      onAccepted: () => record().catch(refuse),
      sweeps,
      ended,
    };
    const reportFaults = () => faults.report(resources.bindingFaults());
    resources.subscribe(({ kind }) => {
      if (kind === "Bindings" && leadership?.isLeading()) reportFaults();
    });
    leadership = startLeadership({
      elector,
      begin(lead) {
        reportFaults();
        return startTerm(term, lead);
      },
      announce: ({ message, ...event }) =>
        events.record(leaseObject, { ...event, message: `${message} (${holder})` }),
      metrics,
      clock,
      log,
    });
  }

  /** Ends the process if it has another cluster id than the cluster records. Throws the error again. */
  function refuse(error: unknown): never {
    if (error instanceof StartError && !stopping.signal.aborted) {
      log.error(error.message);
      fatal(error);
    }
    throw error;
  }

  const starting = start()
    .catch(refuse)
    .catch((error: unknown) => {
      if (stopping.signal.aborted || error instanceof StartError) return;
      log.error({ err: error }, "the operator could not start");
    });
  return {
    clusterId: () => clusterId,
    resources,
    isReady: async () => isSynced,
    isAlive: liveness.isAlive,
    isLeading: () => leadership?.isLeading() ?? false,
    async stop() {
      stopping.abort();
      const drained = new AbortController();
      const ending = (leadership?.stop() ?? Promise.resolve()).then(() => drained.abort());
      await pause(DRAIN_MS, drained.signal);
      await resources.stop();
      await starting;
      await ending;
      await events.flush();
      await client.close();
      liveness.stop();
    },
  };
}

function msOf(duration: string | undefined): number | undefined {
  return duration === undefined ? undefined : durationSeconds(duration) * 1000;
}

/** Judges whether the operator's process in a cluster still works. */
export type Liveness = {
  /** Records that the cluster has answered a request. */
  answered(): void;
  /** Returns false only if nothing but a restart of the process helps. */
  isAlive(): boolean;
  stop(): void;
};

/** In milliseconds: a watch's silence, the time since the cluster's last answer, the event loop's lag. */
type Limits = { silentMs: number; answeredMs: number; lagMs: number };

/** `mean` is in nanoseconds since the last reset, and `NaN` before the first measurement. */
type LoopDelay = Pick<ReturnType<typeof monitorEventLoopDelay>, "mean" | "enable" | "disable" | "reset">;

const LIMITS: Limits = { silentMs: 10 * 60_000, answeredMs: 60_000, lagMs: 5_000 };

/**
 * Creates a liveness check of the process. The process is not alive if a watch is silent for too long
 * although the cluster answers other requests, or if its event loop lags so much that it cannot keep its
 * lease. If the cluster is unavailable, the process counts as alive, because a restart would not help.
 */
export function createLiveness(
  watches: () => readonly WatchState[],
  { silentMs, answeredMs, lagMs }: Limits = LIMITS,
  delay: LoopDelay = monitorEventLoopDelay({ resolution: 100 }),
): Liveness {
  delay.enable();
  let answeredAt = Number.NEGATIVE_INFINITY;

  function isSilent({ isSynced, activeAt }: WatchState): boolean {
    return isSynced && performance.now() - activeAt > silentMs;
  }

  return {
    answered() {
      answeredAt = performance.now();
    },
    isAlive() {
      const lag = delay.mean / 1e6;
      delay.reset();
      if (lag > lagMs) return false;
      const clusterAnswers = performance.now() - answeredAt < answeredMs;
      return !(clusterAnswers && watches().some(isSilent));
    },
    stop: () => void delay.disable(),
  };
}
