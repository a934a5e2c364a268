import { readFile } from "node:fs/promises";
import type { CreditsCommands } from "./accounts/ledger/credits_command.ts";
import { type ComparedClock, systemClock } from "./clock.ts";
import {
  type RoleConfig,
  readApiConfig,
  readDatabaseConfig,
  readMigrateConfig,
  readOperatorConfig,
  readWorkerConfig,
  StartError,
  WRONG_SETTING,
} from "./config.ts";
import type { ServiceClock, ServiceClockOptions } from "./db/clock/service_clock.ts";
import type { EventsCommands } from "./events/command/events_command.ts";
import type { HistoryCommands } from "./history/archive/history_command.ts";
import { createHealth, showReadiness } from "./http/server/health.ts";
import { addressOf, startServer } from "./http/server/server.ts";

import { type DatabaseUrls, directUrlOf } from "./input/database_url.ts";
import { kafkaSettings } from "./input/event_settings.ts";
import { exitStatus } from "./input/exit_status.ts";
import { createLog, type Logger } from "./log.ts";
import { createMetrics, type Metrics } from "./metrics.ts";

/**
 * `isReady` returns whether the role can do its work. `drain` is called before `stop`, and resolves when
 * clients no longer send new work.
 */
export type RunningRole = {
  isReady(): Promise<boolean>;
  isAlive?(): boolean;
  drain?(): Promise<void>;
  stop(): Promise<void>;
};

/** Runs the HTTP API until a signal stops the process. */
export async function runApi(): Promise<void> {
  const config = readApiConfig();
  const [{ startApi }, { lowerPoolPriority }] = await Promise.all([
    import("./api.ts"),
    import("./proofs/pool_threads.ts"),
  ]);
  await lowerPoolPriority();
  const settings = { config, version: await readVersion(), documents: "immediately" } as const;
  await run("api", config, (deps) => startApi({ ...deps, ...settings }));
}

/** Runs the event relay and webhook delivery until one of the `signals` stops the process. */
export async function runWorker(signals: SignalSource = process): Promise<void> {
  const config = readWorkerConfig();
  const [{ startWorker }, { openCarrier }] = await Promise.all([
    import("./worker.ts"),
    import("./events/carrier.ts"),
  ]);
  const start = async ({ log, metrics, clock }: RoleDeps): Promise<RunningRole> => {
    const timing = {
      leaseSeconds: config.LEASE_SECONDS,
      claimSeconds: config.CLAIM_SECONDS,
      reapSeconds: config.LEASE_SECONDS / 3,
    };
    const fatal = (error: Error): void => {
      log.error({ err: error }, "the worker cannot go on");
      process.exit(error instanceof StartError ? WRONG_SETTING : 1);
    };
    const carrier = await openCarrier(kafkaSettings(config), fatal);
    const worker = startWorker({ config, clock, log, metrics, timing, carrier, fatal });
    return {
      isReady: async () => (await worker.health()).ok,
      async stop() {
        const limit = exitIfStopHangs(log);
        await worker.stop();
        clearTimeout(limit);
      },
    };
  };
  await run("worker", config, start, signals);
}

/** Limit for an orderly shutdown: longer than one delivery attempt, shorter than the 30 s of Kubernetes. */
const WORKER_STOP_MS = 25_000;

/** Exits the process if an orderly shutdown takes too long, for example because a broker does not respond. */
function exitIfStopHangs(log: Logger): NodeJS.Timeout {
  const end = () => {
    log.warn(
      { seconds: WORKER_STOP_MS / 1_000 },
      "not stopped in time: its work becomes free when its leases expire",
    );
    process.exit(1);
  };
  return setTimeout(end, WORKER_STOP_MS).unref();
}

/** Runs the operator until a signal stops the process. `options` override the environment. */
export async function runOperator(options: Record<string, string | undefined>): Promise<void> {
  const config = readOperatorConfig(undefined, options);
  const [{ startOperator }, { createOperatorMetrics }] = await Promise.all([
    import("./operator/operator.ts"),
    import("./operator/operator_metrics.ts"),
  ]);
  await run("operator", config, async ({ log, metrics: { registry } }) =>
    startOperator({
      config,
      clock: systemClock,
      log,
      metrics: createOperatorMetrics(registry),
      version: await readVersion(),
      fatal: () => process.exit(WRONG_SETTING),
    }),
  );
}

/**
 * Migrates the database to this version's schema, and creates missing topics. Returns the exit status: 0 if
 * everything is up to date, 1 if a migration failed, or 3 if the database could not be reached or locked in
 * time, so that a retry may succeed.
 */
export async function runMigrate(): Promise<number> {
  const config = readMigrateConfig();
  const log = createLog("info", "migrate");
  const { migrate, MigrationPutOff } = await import("./db/migrate.ts");
  try {
    const databaseMs = config.MIGRATE_WAIT_SECONDS * 1000;
    const { applied } = await migrate(directUrlOf(config), { databaseMs, log });
    log.info({ applied }, applied.length > 0 ? "migrated" : "nothing to migrate");
  } catch (error) {
    if (error instanceof StartError) throw error;
    if (error instanceof MigrationPutOff) {
      log.error(error.message);
      return exitStatus.unavailable;
    }
    log.error({ err: error }, "not migrated: the failed migration was rolled back");
    return 1;
  }
  const settings = kafkaSettings(config);
  if (settings === undefined) return 0;
  const { makeTopics } = await import("./events/kafka/topics.ts");
  await makeTopics(settings, log);
  return 0;
}

/**
 * Compares the ledger with balances and history. Prints one JSON line for each difference, and one with the
 * totals. Returns the exit status: 0 without differences, 1 with differences, 3 if the comparison failed.
 */
export async function runReconcile(environment?: Record<string, string>): Promise<number> {
  const url = directUrlOf(readDatabaseConfig(environment));
  const [{ openDatabase }, { throwRefusal }, { reconcileLedger }] = await Promise.all([
    import("./db/database.ts"),
    import("./db/refusals.ts"),
    import("./accounts/ledger/reconcile.ts"),
  ]);
  const database = openDatabase({
    url,
    name: "deputize-reconcile",
    max: 1,
    onlyReads: true,
    onError: () => {},
  });
  try {
    const { differences, ...seen } = await reconcileLedger(database);
    for (const difference of differences) process.stdout.write(`${JSON.stringify(difference)}\n`);
    process.stdout.write(`${JSON.stringify({ ...seen, differences: differences.length })}\n`);
    return differences.length === 0 ? 0 : 1;
  } catch (error) {
    throwRefusal(error);
    createLog("info", "reconcile").error({ err: error }, "the ledger could not be read");
    return exitStatus.unavailable;
  } finally {
    await database.destroy();
  }
}

/** Returns the commands of `deputize credits`, for the database in the settings. */
export async function openCredits(): Promise<CreditsCommands> {
  const url = directUrlOf(readDatabaseConfig());
  const { createCreditsCommands } = await import("./accounts/ledger/credits_command.ts");
  return createCreditsCommands({ url, out: process.stdout, err: process.stderr });
}

/** Returns the commands of `deputize history`. Only commands that use the database need its setting. */
export async function openHistory(): Promise<HistoryCommands> {
  const { createHistoryCommands } = await import("./history/archive/history_command.ts");
  const url = () => directUrlOf(readDatabaseConfig());
  return createHistoryCommands({ url, out: process.stdout, err: process.stderr });
}

/** Returns the commands of `deputize events`, for the database in the settings. */
export async function openEvents(): Promise<EventsCommands> {
  const config = readMigrateConfig();
  const [{ createEventsCommands }, { readers }] = await Promise.all([
    import("./events/command/events_command.ts"),
    import("./installation/readers.ts"),
  ]);
  return createEventsCommands({
    url: directUrlOf(config),
    kafka: kafkaSettings(config),
    readers,
    out: process.stdout,
    err: process.stderr,
  });
}

/** `clock` follows the database's clock. Without a database, it never agrees with another clock. */
type RoleDeps = { log: Logger; metrics: Metrics; clock: ComparedClock };

/** The emitter of stop signals: this process, except in tests. */
export type SignalSource = Pick<NodeJS.EventEmitter, "on" | "off">;

/**
 * Runs a role until the first SIGTERM or SIGINT. Opens the health port. If the role has a database, waits for
 * its schema and compares the clocks. Then starts the role. A second signal exits the process immediately.
 */
export async function run(
  name: string,
  config: RoleConfig & Partial<DatabaseUrls>,
  start: (deps: RoleDeps) => Promise<RunningRole>,
  signals: SignalSource = process,
): Promise<void> {
  const log = createLog(config.LOG_LEVEL, name);
  const metrics = createMetrics({ processMetrics: true });
  const stopping = firstSignal(signals);
  let role: RunningRole | undefined;
  let clock: ServiceClock | undefined;
  const reason = () => clock?.fault();
  const isReady = async () =>
    role !== undefined &&
    reason() === undefined &&
    !stopping.signal.aborted &&
    (await role.isReady()) &&
    !stopping.signal.aborted;
  showReadiness(metrics, name, isReady);
  const health = await startServer(
    createHealth({ metrics, ready: isReady, reason, alive: () => role?.isAlive?.() ?? true }),
    addressOf(config, "HEALTH_HOST", "HEALTH_PORT"),
  );
  log.info({ health_port: health.port }, "starting");
  try {
    clock = await openClock(config, { log, metrics, signal: stopping.signal });
    const own = clock ?? { ...systemClock, agreed: () => undefined };
    role = await startOnce(() => start({ log, metrics, clock: own }), stopping);
    if (role === undefined) return;
    log.info({ health_port: health.port }, "ready");
    log.info({ signal: await stopping.name }, "stopping");
    await role.drain?.();
    await role.stop();
  } finally {
    clock?.stop();
    await health.stop(0);
  }
}

/** Returns the clock of a role with a database, or `undefined` if there is none or `signal` aborted. */
async function openClock(
  { DATABASE_URL, DATABASE_DIRECT_URL }: Partial<DatabaseUrls>,
  options: ServiceClockOptions,
): Promise<ServiceClock | undefined> {
  if (DATABASE_URL === undefined) return undefined;
  const { openServiceClock } = await import("./db/clock/service_clock.ts");
  return openServiceClock({ DATABASE_URL, DATABASE_DIRECT_URL }, options);
}

/** Returns `undefined` if a signal arrived before the start. */
async function startOnce(
  start: () => Promise<RunningRole>,
  { signal, name }: Stopping,
): Promise<RunningRole | undefined> {
  if (signal.aborted) return undefined;
  const starting = new AbortController();
  // A role that is still starting cannot be stopped in an orderly way, so the process exits.
  void name.then(() => starting.signal.aborted || process.exit(0));
  const role = await start();
  starting.abort();
  return role;
}

const STOP_SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** The first stop signal: `signal` is aborted, and `name` resolves to the name of that signal. */
type Stopping = { signal: AbortSignal; name: Promise<NodeJS.Signals> };

/** Listens for the first stop signal only. The next one has its default effect and ends the process. */
function firstSignal(signals: SignalSource): Stopping {
  const stopping = new AbortController();
  const name = new Promise<NodeJS.Signals>((resolve) => {
    const stop = (signal: NodeJS.Signals) => {
      for (const each of STOP_SIGNALS) signals.off(each, stop);
      stopping.abort();
      resolve(signal);
    };
    for (const each of STOP_SIGNALS) signals.on(each, stop);
  });
  return { signal: stopping.signal, name };
}

async function readVersion(): Promise<string> {
  const manifest = await readFile(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}
