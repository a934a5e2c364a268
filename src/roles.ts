import { readFile } from "node:fs/promises";
import type { CreditsCommands } from "./accounts/ledger/credits_command.ts";
import { systemClock } from "./clock.ts";
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
import type { EventsCommands } from "./events/command/events_command.ts";
import { startServer } from "./http/exchange/server.ts";
import { createHealth } from "./http/health.ts";
import { kafkaSettings } from "./input/event_settings.ts";
import { createLog, type Logger } from "./log.ts";
import { createMetrics, type Metrics } from "./metrics.ts";

/** A role that is up: whether it can do its work, and how it ends in order. */
type RunningRole = { isReady(): Promise<boolean>; isAlive?(): boolean; stop(): Promise<void> };

/** Serves the HTTP API until a signal ends it. */
export async function runApi(): Promise<void> {
  const config = readApiConfig();
  const { startApi } = await import("./api.ts");
  await run("api", config, async ({ log, metrics }) =>
    startApi({ config, clock: systemClock, log, metrics, version: await readVersion() }),
  );
}

/** Relays events and delivers webhooks until a signal ends it. */
export async function runWorker(): Promise<void> {
  const config = readWorkerConfig();
  const [{ startWorker }, { openCarrier }] = await Promise.all([
    import("./worker.ts"),
    import("./events/carrier.ts"),
  ]);
  await run("worker", config, async ({ log, metrics }) => {
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
    const worker = startWorker({ config, clock: systemClock, log, metrics, timing, carrier, fatal });
    return {
      isReady: async () => (await worker.health()).ok,
      async stop() {
        endLater(log);
        await worker.stop();
      },
    };
  });
}

/** Longer than an attempt takes; Kubernetes kills after 30 s. */
const WORKER_STOP_MS = 25_000;

/**
 * Ends the process when something, such as a broker that does not answer, keeps it from its end for too long.
 */
function endLater(log: Logger): void {
  const end = () => {
    log.warn(
      { seconds: WORKER_STOP_MS / 1_000 },
      "not stopped in time: what it holds is free with its leases",
    );
    process.exit(1);
  };
  setTimeout(end, WORKER_STOP_MS).unref();
}

/** Makes declared resources true until a signal ends it. `options` come before those of the environment. */
export async function runOperator(options: Record<string, string | undefined>): Promise<void> {
  const config = readOperatorConfig(undefined, options);
  const [{ startOperator }, { createOperatorMetrics }] = await Promise.all([
    import("./operator/run.ts"),
    import("./operator/metrics/operator_metrics.ts"),
  ]);
  await run("operator", config, async ({ log, metrics: { registry } }) =>
    startOperator({
      config,
      clock: systemClock,
      log,
      metrics: createOperatorMetrics(registry),
      version: await readVersion(),
    }),
  );
}

/** Brings the database to this version's schema, makes missing topics, and says what was done. */
export async function runMigrate(): Promise<void> {
  const config = readMigrateConfig();
  const log = createLog("info", "migrate");
  const { migrate } = await import("./db/migrate.ts");
  const { applied } = await migrate(config.DATABASE_URL);
  log.info({ applied }, applied.length > 0 ? "migrated" : "nothing to migrate");
  const settings = kafkaSettings(config);
  if (settings === undefined) return;
  const { makeTopics } = await import("./events/kafka/topics.ts");
  await makeTopics(settings, log);
}

/**
 * Compares the ledger with balances and history, and prints one JSON line for each difference and one for the
 * whole. Gives the exit status: 0 when all agrees, 1 when there are differences, 2 when nothing could be
 * compared.
 */
export async function runReconcile(): Promise<number> {
  const { DATABASE_URL } = readDatabaseConfig();
  const [{ openDatabase }, { reconcileLedger }] = await Promise.all([
    import("./db/database.ts"),
    import("./accounts/ledger/reconcile.ts"),
  ]);
  const database = openDatabase({ url: DATABASE_URL, name: "deputize-reconcile", max: 1, onError: () => {} });
  try {
    const { differences, ...seen } = await reconcileLedger(database);
    for (const difference of differences) process.stdout.write(`${JSON.stringify(difference)}\n`);
    process.stdout.write(`${JSON.stringify({ ...seen, differences: differences.length })}\n`);
    return differences.length === 0 ? 0 : 1;
  } catch (error) {
    createLog("info", "reconcile").error({ err: error }, "the ledger could not be read");
    return 2;
  } finally {
    await database.destroy();
  }
}

/** The commands of `deputize credits` on the database of the settings. */
export async function openCredits(): Promise<CreditsCommands> {
  const { DATABASE_URL: url } = readDatabaseConfig();
  const { createCreditsCommands } = await import("./accounts/ledger/credits_command.ts");
  return createCreditsCommands({ url, clock: systemClock, out: process.stdout, err: process.stderr });
}

/** The commands of `deputize events` on the database of the settings. */
export async function openEvents(): Promise<EventsCommands> {
  const config = readMigrateConfig();
  const [{ createEventsCommands }, { readers }] = await Promise.all([
    import("./events/command/events_command.ts"),
    import("./worker.ts"),
  ]);
  return createEventsCommands({
    url: config.DATABASE_URL,
    kafka: kafkaSettings(config),
    clock: systemClock,
    readers,
    out: process.stdout,
    err: process.stderr,
  });
}

/**
 * Starts a role and its health port, and ends both at the first SIGTERM or SIGINT. A second one ends
 * immediately.
 */
async function run(
  name: string,
  config: RoleConfig,
  start: (deps: { log: Logger; metrics: Metrics }) => Promise<RunningRole>,
): Promise<void> {
  const log = createLog(config.LOG_LEVEL, name);
  const metrics = createMetrics({ processMetrics: true });
  const role = await start({ log, metrics });
  const health = await startServer(createHealth({ metrics, ready: role.isReady, alive: role.isAlive }), {
    host: config.HEALTH_HOST,
    port: config.HEALTH_PORT,
  });
  log.info({ health_port: health.port }, "ready");
  const signal = await firstSignal();
  log.info({ signal }, "stopping");
  await role.stop();
  await health.stop(0);
}

function firstSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => resolve(name));
  });
}

async function readVersion(): Promise<string> {
  const manifest = await readFile(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}
