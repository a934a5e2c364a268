import { pino } from "pino";
import { afterEach, beforeEach } from "vitest";
import type { Worker, WorkerTiming } from "../../../src/worker.ts";
import { type SteeredClock, steeredClock } from "../../support/clock.ts";
import { holdLoopPauses, type LoopPauses } from "../../support/loop_pauses.ts";
import { until } from "../../support/process.ts";
import { makeConnection, type TestConnection } from "./connection.ts";
import { type Home, useDatabase } from "./database.ts";
import { type Receiver, startReceiver } from "./receiver.ts";
import { startTestWorker, type WorkerChange } from "./worker.ts";

/** The names of a worker's loops in its log. */
export const LOOPS = [
  ...["relay", "webhooks", "messages to channels", "lost deliveries", "backlogs", "recoveries"],
  "removed connections",
  ...["retention", "reconciliation", "shard leases", "measurements"],
];
/** Timing that differs from the defaults. A worker renews its leases every 100 s. */
export const TIMING: WorkerTiming = { leaseSeconds: 300, claimSeconds: 3000, reapSeconds: 11 };
/** The lengths of pauses with this timing, in milliseconds. */
export const [RENEW_MS, REAP_MS, MEASURE_MS, HOUR_MS] = [100_000, 11_000, 15_000, 3_600_000];

type Line = { msg: string; loop?: string; measurement?: string };

/** Workers whose loops pause until the test ends the pauses. Created again for each test. */
export type WorkerWorld = {
  home: Home;
  clock: SteeredClock;
  receiver: Receiver;
  pauses: LoopPauses;
  /** The log lines of the workers. */
  lines: Line[];
  start(change?: WorkerChange): Worker;
  connect(): Promise<TestConnection>;
  /** Resolves when each loop of the only worker pauses. */
  idle(): Promise<void>;
  /** Lets each loop of the only worker take a step. */
  step(): Promise<void>;
  /** Lets all loops take steps until `condition` returns true. */
  stepUntil(what: string, condition: () => boolean | Promise<boolean>): Promise<void>;
  stateOf(deliveryId: string | undefined): Promise<string | undefined>;
};

/** Creates the workers of a test file. */
export function workerWorld(): WorkerWorld {
  const home = useDatabase();
  let workers: Worker[] = [];
  const world = {
    home,
    start(change = {}) {
      const write = (line: string) => void world.lines.push(JSON.parse(line));
      const log = pino({ level: "info" }, { write });
      const own = { clock: world.clock, log, ...change };
      const worker = world.pauses.of(() => startTestWorker(home.urls, TIMING, own));
      workers.push(worker);
      return worker;
    },
    async connect() {
      const connection = await makeConnection(home.database, world.receiver.url);
      world.receiver.secret = connection.secret;
      return connection;
    },
    idle: () => until("every loop pauses", () => world.pauses.waiting().length === LOOPS.length),
    async step() {
      world.pauses.end();
      await world.idle();
    },
    stepUntil: (what, condition) =>
      until(what, () => {
        world.pauses.end();
        return condition();
      }),
    stateOf: async (id = "") =>
      (await home.database("webhook_deliveries").where({ delivery_id: id }).first("state"))?.state,
  } as WorkerWorld;

  beforeEach(async () => {
    world.clock = steeredClock();
    world.receiver = await startReceiver(() => world.clock.now().getTime());
    world.pauses = holdLoopPauses();
    world.lines = [];
  });
  afterEach(async () => {
    world.pauses.restore();
    await Promise.all(workers.map((worker) => worker.stop()));
    workers = [];
    await world.receiver.close();
    await home.database.raw("truncate outbox, inbox, event_secrets, webhook_endpoints, dead_letters cascade");
  });
  return world;
}
