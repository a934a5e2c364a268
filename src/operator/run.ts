import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Clock } from "../clock.ts";
import type { OperatorConfig } from "../config.ts";
import type { Logger } from "../log.ts";
import { runInCluster, type SweepTimes } from "./cluster/run_in_cluster.ts";
import { runOverFolder } from "./folder/run_over_folder.ts";
import type { OperatorMetrics } from "./metrics/operator_metrics.ts";
import type { Operator } from "./operator.ts";

type Deps = {
  config: OperatorConfig;
  clock: Clock;
  log: Logger;
  metrics: OperatorMetrics;
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
export async function startOperator({ config, folderTimes, sweepTimes, ...deps }: Deps): Promise<Operator> {
  const holder = `${hostname()}_${randomUUID()}`;
  return "MANIFESTS_DIR" in config
    ? runOverFolder({ ...deps, config, holder, times: folderTimes })
    : runInCluster({ ...deps, config, holder, sweepTimes });
}
