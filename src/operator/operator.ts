import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Clock } from "../clock.ts";
import type { OperatorConfig } from "../config.ts";
import type { Logger } from "../log.ts";
import { runInCluster, type SweepTimes } from "./cluster/run_in_cluster.ts";
import type { Operator } from "./context.ts";
import { runOverFolder } from "./folder/run_over_folder.ts";
import type { OperatorMetrics } from "./operator_metrics.ts";
import { createTracing } from "./tracing.ts";

type Deps = {
  config: OperatorConfig;
  clock: Clock;
  log: Logger;
  metrics: OperatorMetrics;
  /** Version of the program, for traces. */
  version: string;
  /** For tests: how long the folder waits before it acts, in milliseconds. */
  folderTimes?: { quietMs?: number; missingMs?: number; rescanMs?: number };
  /** For tests: when the operator in a cluster sweeps for delegations without an object. */
  sweepTimes?: SweepTimes;
};

/**
 * Starts the operator over a folder or in a cluster. Over a folder, it resolves once all manifests have
 * been read. In a cluster, it resolves earlier, and `isReady` reports when all objects have been read.
 * Throws `StateDamaged` if the operator's own records are unreadable. Throws `IdentityMissing` if only its
 * identity is missing, and `StartError` if no cluster is configured.
 */
export async function startOperator(options: Deps): Promise<Operator> {
  const { config, folderTimes, sweepTimes, version, ...rest } = options;
  const tracing = await createTracing(config.OTEL_EXPORTER_OTLP_ENDPOINT, version);
  const deps = { ...rest, tracing };
  const holder = `${hostname()}_${randomUUID()}`;
  const operator = await ("MANIFESTS_DIR" in config
    ? runOverFolder({ ...deps, config, holder, times: folderTimes })
    : runInCluster({ ...deps, config, holder, sweepTimes }));
  return {
    ...operator,
    async stop() {
      await operator.stop();
      await tracing.stop();
    },
  };
}
