import { join } from "node:path";
import type { Clock } from "../clock.ts";
import type { OperatorConfig } from "../config.ts";
import type { Logger } from "../log.ts";
import { createApiClient } from "./api/client.ts";
import { externalIds } from "./context.ts";
import { startController } from "./controller.ts";
import { clusterIdOf } from "./folder/cluster_id.ts";
import { openFolder } from "./folder/source.ts";
import { kinds } from "./kinds.ts";
import { createStateReader } from "./polling/state_reader.ts";
import type { Resources } from "./resources.ts";
import { loadSchemas } from "./schema/schemas.ts";

/** An operator that runs. */
export type Operator = {
  /** The id under which the API knows the folder. */
  clusterId: string;
  /** The objects as the operator sees them. */
  resources: Resources;
  /** Whether every object has been read once. */
  isReady(): Promise<boolean>;
  /** Ends in order: what is under way is finished first. */
  stop(): Promise<void>;
};

type Deps = {
  config: OperatorConfig;
  clock: Clock;
  log: Logger;
  /** For tests: how patient the folder is, in milliseconds. */
  folderTimes?: { quietMs?: number; missingMs?: number; rescanMs?: number };
};

/** A folder has one operator at a time. */
const FOLDER_EPOCH = 1;

/**
 * Makes true what the manifests of a folder declare, and keeps it so. Resolves once all of them were read.
 * Throws `StateDamaged` when the operator's own records cannot be understood, `IdentityMissing` when only its
 * identity is gone.
 */
export async function startOperator({ config, clock, log, folderTimes }: Deps): Promise<Operator> {
  const resources = await openFolder({
    manifestsDir: config.MANIFESTS_DIR,
    statusDir: config.STATUS_DIR,
    secretsDir: config.SECRETS_DIR,
    schemas: await loadSchemas(),
    clock,
    log,
    ...folderTimes,
  });
  const hasObjects = kinds.some((kind) => resources.list(kind).length > 0);
  const clusterId = await clusterIdOf(join(config.STATUS_DIR, "cluster.yaml"), { hasObjects });
  const api = createApiClient({
    clock,
    baseUrl: config.OPERATOR_API_URL,
    token: config.OPERATOR_TOKEN,
    tokenFile: config.OPERATOR_TOKEN_FILE,
    clusterId,
    epoch: FOLDER_EPOCH,
  });
  const controller = await startController({
    resources,
    api,
    states: createStateReader(api),
    clock,
    log,
    apiUrl: config.API_URL.replace(/\/$/, ""),
    consoleUrl: config.CONSOLE_URL,
    externalIdOf: externalIds(clusterId),
  });
  return {
    clusterId,
    resources,
    isReady: async () => true,
    async stop() {
      await controller.stop();
      await resources.stop();
      await api.close();
    },
  };
}
