import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../clock.ts";
import type { FolderOperatorConfig } from "../../config.ts";
import type { Logger } from "../../log.ts";
import type { ApiTime } from "../api_client.ts";
import type { Operator } from "../context.ts";
import { isSameVersion, type Kind, keyOf, type ObjectOfKind } from "../kinds.ts";
import { soleElector, startLeadership, startTerm, termOptions } from "../leader_terms.ts";
import { BINDINGS_NAME, bindingsOf } from "../namespace_bindings.ts";
import type { OperatorMetrics } from "../operator_metrics.ts";
import { allObjects, type Change, type Resources } from "../resources.ts";
import { loadSchemas, type Schemas } from "../schema/schemas.ts";
import type { Tracing } from "../tracing.ts";
import { setFinalizer, writeStatus } from "./changes.ts";
import { lockFolders } from "./folder_lock.ts";
import { openErrorFile, openEventFile } from "./reports.ts";
import { openSecretFiles } from "./secrets.ts";
import { clusterIdOf } from "./state_file.ts";
import { openStore } from "./store.ts";
import { createManifestSync } from "./sync.ts";
import { createSecretWatch } from "./watch.ts";

type Options = {
  config: FolderOperatorConfig;
  clock: Clock;
  log: Logger;
  metrics: OperatorMetrics;
  tracing: Tracing;
  apiTime: ApiTime;
  holder: string;
  times?: { quietMs?: number; missingMs?: number; rescanMs?: number } | undefined;
};

/**
 * Runs the operator over a folder, and resolves after reading all manifests. Throws `StateDamaged`,
 * `IdentityMissing`, and `StartError` if another operator uses the folder of the status or of the secrets.
 */
export async function runOverFolder(options: Options): Promise<Operator> {
  const { STATUS_DIR, SECRETS_DIR } = options.config;
  const release = await lockFolders([
    { path: STATUS_DIR, mode: 0o755, setting: "STATUS_DIR" },
    { path: SECRETS_DIR, mode: 0o700, setting: "SECRETS_DIR" },
  ]);
  try {
    const operator = await runLocked(options);
    return { ...operator, stop: () => operator.stop().finally(release) };
  } catch (error) {
    release();
    throw error;
  }
}

async function runLocked(options: Options): Promise<Operator> {
  const { config, clock, log, metrics, tracing, apiTime, holder, times } = options;
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
  const term = termOptions(config, { resources, apiTime, log, metrics, tracing, clusterId, holder });
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
    isReady: async () => leadership.hasReconciledAll(),
    isAlive: () => true,
    isLeading: leadership.isLeading,
    async stop() {
      await leadership.stop();
      await resources.stop();
    },
  };
}

type SourceOptions = {
  manifestsDir: string;
  statusDir: string;
  secretsDir: string;
  schemas: Schemas;
  clock: Clock;
  log: Logger;
  quietMs?: number;
  missingMs?: number;
  rescanMs?: number;
};

const QUIET_MS = 200;
const MISSING_MS = 1000;
const RESCAN_MS = 15_000;

/**
 * Opens the objects that YAML files in a folder declare. The folder replaces the API server: it validates
 * objects and assigns uids and generations. It stores objects with status and finalizers in `statusDir`, and
 * Secrets in `secretsDir`. Throws `StateDamaged`.
 */
export async function openFolder(options: SourceOptions): Promise<Resources> {
  const { manifestsDir, statusDir, secretsDir, schemas, clock, log } = options;
  const { quietMs = QUIET_MS, missingMs = MISSING_MS, rescanMs = RESCAN_MS } = options;
  const store = await openStore(statusDir);
  const secrets = openSecretFiles(secretsDir);
  const events = openEventFile(join(statusDir, "events.jsonl"), { clock });
  const errors = openErrorFile(join(statusDir, "errors.yaml"));
  const times = { quietMs, missingMs, rescanMs };
  const manifests = createManifestSync({
    folder: manifestsDir,
    schemas,
    store,
    errors,
    clock,
    log,
    ...times,
  });
  const listeners = new Set<(change: Change) => void>();
  const readBindings = () => bindingsOf([{ name: BINDINGS_NAME, data: store.bindings()?.data ?? {} }]);
  let bindings = readBindings();

  function notify(change: Change): void {
    if (change.kind === "Bindings") bindings = readBindings();
    for (const listener of listeners) listener(change);
  }

  store.subscribe(notify);
  const secretWatch = createSecretWatch({
    folder: secretsDir,
    log,
    onChange: (namespace, name) => notify({ kind: "Secret", namespace, name }),
    rescanMs,
  });

  return {
    async start() {
      await mkdir(secretsDir, { recursive: true, mode: 0o700 });
      await secretWatch.start();
      await manifests.first();
      for (const { object } of store.known().values()) notify(keyOf(object));
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    list: <K extends Kind>(kind: K) => {
      const objects = [...store.known().values()].map(({ object }) => object);
      return objects.filter((object) => object.kind === kind) as ObjectOfKind[K][];
    },
    get: <K extends Kind>(kind: K, namespace: string, name: string) =>
      store.get({ kind, namespace, name })?.object as ObjectOfKind[K] | undefined,
    isCurrent: async (object) => {
      const known = store.get(keyOf(object))?.object;
      return known !== undefined && isSameVersion(known.metadata, object.metadata);
    },
    serves: () => true,
    binding: (namespace) => bindings.get(namespace),
    namespaceUid: async () => undefined,
    async setFinalizer(object, present) {
      await store.change(keyOf(object), setFinalizer(object.metadata.uid, present));
      if (store.get(keyOf(object)) === undefined) manifests.soon();
    },
    writeStatus: (object, status) => store.change(keyOf(object), writeStatus(object.metadata.uid, status)),
    readSecret: secrets.read,
    async writeSecret(secret, previous) {
      const isWritten = await secrets.write(secret, previous);
      if (isWritten) secretWatch.note(secret.namespace, secret.name);
      return isWritten;
    },
    removeSecret: secrets.remove,
    recordEvent: events.record,
    async stop() {
      await secretWatch.stop();
      await manifests.stop();
      await events.flush();
    },
  };
}
