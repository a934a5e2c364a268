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
  /** Of what version spans say they are. */
  version: string;
  /** For tests: how patient the folder is, in milliseconds. */
  folderTimes?: { quietMs?: number; missingMs?: number; rescanMs?: number };
  /** For tests: when the operator in a cluster looks for what lost its object. */
  sweepTimes?: SweepTimes;
};

/**
 * Makes true what is declared in a folder or a cluster, and keeps it so. Over a folder it resolves once all
 * manifests were read, and throws `StateDamaged` when the operator's own records cannot be understood,
 * `IdentityMissing` when only its identity is gone. In a cluster it resolves before: `isReady` says when all
 * was read. Throws `StartError` when no cluster is set.
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
