import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Clock } from "../clock.ts";
import type { OperatorConfig, StartError } from "../config.ts";
import type { Logger } from "../log.ts";
import { followApi } from "./api_client.ts";
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
  /** Used in traces. */
  version: string;
  /** Called if the operator finds, after it has started, that it must not run. The process must then end. */
  fatal(error: StartError): void;
  /** For tests, in milliseconds. */
  folderTimes?: { quietMs?: number; missingMs?: number; rescanMs?: number };
  /** For tests. */
  sweepTimes?: SweepTimes;
};

/**
 * Starts the operator. Over a folder, it resolves after reading all manifests. In a cluster, it resolves
 * before the objects are read (see `isReady`). Throws `StateDamaged` for unreadable records of the operator,
 * `IdentityMissing` for a missing identity, and `StartError` if no cluster is configured.
 */
export async function startOperator(options: Deps): Promise<Operator> {
  const { config, folderTimes, sweepTimes, version, fatal, ...rest } = options;
  const tracing = await createTracing(config.OTEL_EXPORTER_OTLP_ENDPOINT, version);
  const apiTime = followApi(rest.log);
  rest.metrics.follows(apiTime.clock);
  const deps = { ...rest, tracing, apiTime };
  const holder = `${hostname()}_${randomUUID()}`;
  const operator = await ("MANIFESTS_DIR" in config
    ? runOverFolder({ ...deps, config, holder, times: folderTimes })
    : runInCluster({ ...deps, config, holder, fatal, sweepTimes }));
  return {
    ...operator,
    isReady: async () => apiTime.clock.fault() === undefined && (await operator.isReady()),
    async stop() {
      await operator.stop();
      await tracing.stop();
    },
  };
}
