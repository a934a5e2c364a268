import { join } from "node:path";
import type { Clock } from "../../clock.ts";
import type { FolderOperatorConfig } from "../../config.ts";
import type { Logger } from "../../log.ts";
import { soleElector } from "../leadership/elector.ts";
import { startLeadership } from "../leadership/leadership.ts";
import { startTerm } from "../leadership/term.ts";
import type { OperatorMetrics } from "../metrics/operator_metrics.ts";
import { type Operator, termOptions } from "../operator.ts";
import { allObjects } from "../resources.ts";
import { loadSchemas } from "../schema/schemas.ts";
import type { Tracing } from "../tracing/tracing.ts";
import { clusterIdOf } from "./cluster_id.ts";
import { openFolder } from "./source.ts";

type Options = {
  config: FolderOperatorConfig;
  clock: Clock;
  log: Logger;
  metrics: OperatorMetrics;
  tracing: Tracing;
  /** Which process this is. */
  holder: string;
  times?: { quietMs?: number; missingMs?: number; rescanMs?: number } | undefined;
};

/**
 * Runs the operator over a folder of manifests. Resolves once all of them were read. Throws `StateDamaged`
 * and `IdentityMissing`.
 */
export async function runOverFolder(options: Options): Promise<Operator> {
  const { config, clock, log, metrics, tracing, holder, times } = options;
  const resources = await openFolder({
    manifestsDir: config.MANIFESTS_DIR,
    statusDir: config.STATUS_DIR,
    secretsDir: config.SECRETS_DIR,
    schemas: await loadSchemas(),
    clock,
    log,
    ...times,
  });
  const hasObjects = allObjects(resources).length > 0;
  const clusterId = await clusterIdOf(join(config.STATUS_DIR, "cluster.yaml"), { hasObjects });
  await resources.start();
  const term = termOptions(config, { resources, clock, log, metrics, tracing, clusterId, holder });
  const leadership = startLeadership({
    elector: soleElector,
    begin: (lead) => startTerm(term, lead),
    announce: () => undefined,
    metrics,
    clock,
    log,
  });
  return {
    clusterId: () => clusterId,
    resources,
    isReady: async () => leadership.hasLooked(),
    isAlive: () => true,
    isLeading: leadership.isLeading,
    async stop() {
      await leadership.stop();
      await resources.stop();
    },
  };
}
