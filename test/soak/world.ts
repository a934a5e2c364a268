import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Database, openDatabase } from "../../src/db/database.ts";
import { kafkaJars } from "../../src/dev/kafka/jars.ts";
import { spawnTied } from "../../src/dev/process/lifeline.mjs";
import { createKafkaClient } from "../../src/events/kafka/client.ts";
import { ensureTopics } from "../../src/events/kafka/topics.ts";
import type { KafkaSettings } from "../../src/input/event_settings.ts";
import { SILENT } from "../events/kafka/kafka_world.ts";
import { makeConnection, type TestConnection } from "../events/support/connection.ts";
import { type FragilePostgres, startFragilePostgres } from "../events/support/postgres.ts";
import { SEALING_KEY } from "../events/support/worker.ts";
import { insertRecords, type Records } from "../proofs/records.ts";
import { type KafkaNode, startKafka } from "../support/kafka.ts";
import type { GeneratorInput } from "./generator.ts";
import { hasExited, type Program, startGenerator, startReceivers } from "./programs.ts";

/** A worker: the real program in its own process. */
export type WorkerProcess = {
  child: ChildProcess;
  isRunning(): boolean;
  /** Sends a signal and waits until the process has exited. */
  end(signal: NodeJS.Signals): Promise<void>;
};

/** All real parts of a run, with functions that start and break them. */
export type World = {
  folder: string;
  database: Database;
  postgres: FragilePostgres;
  nodes: KafkaNode[];
  settings: KafkaSettings;
  startWorker(env?: Record<string, string>): Promise<WorkerProcess>;
  connect(count: number): Promise<TestConnection[]>;
  openAccounts(count: number): Promise<Records[]>;
  startGenerator(input: Pick<GeneratorInput, "seed" | "perSecond" | "connections" | "accounts">): Program;
  stop(): Promise<void>;
};

/** Seconds of a lease. Short, so that a dead worker's shards and deliveries become free soon. Minimum: 3. */
const LEASE_SECONDS = 3;
const CLAIM_SECONDS = 20;
/** Longer than a produce request's timeout. So a request to a frozen broker can time out after its write. */
const BROKER_SESSION_MS = 18_000;
/** Milliseconds within which a worker stops. */
const END_MS = 40_000;
const CREDIT_MICRO_USD = 1e12;
const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));

/** Starts Postgres, three brokers and the receivers. Throws an error that names what is missing. */
export async function openWorld(folder: string, seed: number): Promise<World> {
  const { jars, missing } = await kafkaJars();
  if (jars === undefined) throw new Error(`Missing: ${missing}`);
  await mkdir(folder, { recursive: true });
  const stops: (() => Promise<unknown>)[] = [];
  const stop = async () => {
    for (const each of stops.reverse()) await each();
    stops.length = 0;
  };
  try {
    const postgres = await startFragilePostgres();
    stops.push(postgres.remove);
    const database = openDatabase({ url: postgres.url, name: "soak", max: 4, onError: () => undefined });
    stops.push(() => database.destroy());
    const brokers = {
      "broker.session.timeout.ms": String(BROKER_SESSION_MS),
      "leader.imbalance.check.interval.seconds": "5",
    };
    const place = { jars, path: process.env.PATH, folder: join(folder, "kafka") };
    const kafka = await startKafka(place, { count: 3, settings: brokers });
    stops.push(kafka.stop);
    const settings: KafkaSettings = {
      brokers: kafka.brokers,
      prefix: "soak.",
      partitions: 6,
      replication: 3,
    };
    await ensureTopics(createKafkaClient(settings, SILENT), settings);
    await database("event_way").update({ way: "kafka" });
    const receivers = await startReceivers({ folder, seed });
    stops.push(receivers.end);
    const workers = createWorkers(folder, postgres.url, settings);
    stops.push(workers.end);
    return {
      folder,
      database,
      postgres,
      nodes: kafka.nodes,
      settings,
      startWorker: workers.start,
      async connect(count) {
        const made = Array.from({ length: count }, () => makeConnection(database, receivers.url));
        const connections = await Promise.all(made);
        for (const connection of connections) receivers.add(connection);
        return connections;
      },
      openAccounts: (count) =>
        Promise.all(Array.from({ length: count }, () => insertRecords(database, CREDIT_MICRO_USD))),
      startGenerator: (input) => startGenerator({ ...input, folder, url: postgres.url }),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function createWorkers(folder: string, url: string, settings: KafkaSettings) {
  const workers: WorkerProcess[] = [];
  let count = 0;
  const env = {
    DATABASE_URL: url,
    SEALING_KEY,
    DEVELOPMENT: "true",
    WEBHOOK_ALLOWED_CIDRS: "127.0.0.0/8",
    LEASE_SECONDS: String(LEASE_SECONDS),
    CLAIM_SECONDS: String(CLAIM_SECONDS),
    EVENTS: "kafka",
    KAFKA_BROKERS: settings.brokers.join(","),
    KAFKA_PREFIX: settings.prefix,
  };
  return {
    async start(more: Record<string, string> = {}): Promise<WorkerProcess> {
      const log = await open(join(folder, `worker-${++count}.log`), "w");
      const preload = new URL("die_at.ts", import.meta.url).href;
      const child = spawnTied(process.execPath, ["--import", preload, MAIN, "worker"], {
        env: { PATH: process.env.PATH, ...env, ...more },
        stdio: ["ignore", log.fd, log.fd],
      });
      await log.close();
      const worker: WorkerProcess = {
        child,
        isRunning: () => !hasExited(child),
        async end(signal) {
          if (hasExited(child)) return;
          const exit = once(child, "exit");
          child.kill(signal);
          child.kill("SIGCONT");
          const late = setTimeout(() => child.kill("SIGABRT"), END_MS);
          const [, by] = await exit;
          clearTimeout(late);
          if (by === "SIGABRT") throw new Error(`A worker did not end within ${END_MS} ms`);
        },
      };
      workers.push(worker);
      return worker;
    },
    async end() {
      await Promise.all(workers.map((worker) => worker.end("SIGTERM")));
    },
  };
}

/** Keeps this many workers running: restarts each one that ends, as an orchestrator would. */
export function keepWorkers(world: World, count: number) {
  const workers: WorkerProcess[] = [];
  let isOver = false;
  const kept = (async () => {
    while (!isOver) {
      for (let n = 0; n < count; n += 1) {
        if (workers[n]?.isRunning() !== true) workers[n] = await world.startWorker();
      }
      await sleep(500);
    }
  })();
  return {
    workers,
    async stop() {
      isOver = true;
      await kept;
      await Promise.all(workers.map((worker) => worker.end("SIGTERM")));
    },
  };
}
