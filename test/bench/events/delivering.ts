import { setTimeout as sleep } from "node:timers/promises";
import type { BenchDatabase } from "../database.ts";
import type { Ratio } from "../results/figures.ts";
import type { FigureRecord } from "../results/record.ts";
import { percentiles } from "../timing.ts";
import { makeConnections, runLoad } from "./load.ts";
import { type BenchReceivers, startReceivers } from "./receiver.ts";
import { startBenchWorker } from "./worker_child.ts";

const ROUNDS = 2;
const ENDPOINTS = 200;
const HANGING = 40;
/** Events per second. Far below the machine's capacity, so that only hanging receivers cause waits. */
const PER_SECOND = 60;
const WARM_SECONDS = 3;
const LOAD_SECONDS = 25;
const AFTERWARDS_MS = 5_000;
const MEMORY_EACH_MS = 10_000;
const MEMORY_ENDPOINTS = 50;

/** Measures the time from commit to a healthy receiver, while none or a fifth of the receivers hang. */
export async function measureHanging(database: BenchDatabase, record: FigureRecord): Promise<Ratio> {
  const receivers = await startReceivers();
  const worker = await startEmbeddedWorker(database);
  const cases = [0, HANGING].map((hanging) => ({
    hanging,
    name: `commit to a healthy receiver, ${hanging} of ${ENDPOINTS} hang`,
  }));
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const [n, { hanging, name }] of cases.entries()) {
        const { p50, p99, missing } = await hangingRound(database, receivers, 2 * round + n, hanging);
        record.add(`${name}: p50`, "ms", p50);
        record.add(`${name}: p99`, "ms", p99);
        record.add(`${name}: missing`, "deliveries", missing);
      }
    }
  } finally {
    await receivers.close();
    await worker.stop();
  }
  const [none, some] = cases.map(({ name }) => `${name}: p99`) as [string, string];
  return { name: `${some} / none`, over: some, under: none, aim: { atMost: 2 } };
}

type Waits = { p50: number; p99: number; missing: number };

/** Removes the callback URLs afterwards, so that pending deliveries do not disturb other rounds. */
async function hangingRound(
  { db }: BenchDatabase,
  receivers: BenchReceivers,
  round: number,
  hanging: number,
): Promise<Waits> {
  const connections = await makeConnections(
    db,
    Array.from({ length: ENDPOINTS }, (_, n) => receivers.url(n)),
  );
  receivers.hang((number) => number < hanging);
  const transactions = PER_SECOND * LOAD_SECONDS;
  const firstNumber = round * transactions;
  const load = { db, connections, transactions, transactionsPerSecond: PER_SECOND, eventsEach: 1 };
  const committed = await runLoad({ ...load, firstNumber });
  await sleep(AFTERWARDS_MS);
  const ids = connections.map(({ connectionId }) => connectionId);
  await db("connections").whereIn("connection_id", ids).update({ callback_url: null });
  receivers.hang(() => false);
  // The same receivers count as healthy in every round, whether the other receivers hang or not.
  const healthy = [...committed].filter(
    ([number]) =>
      (number - firstNumber) % ENDPOINTS >= HANGING && number - firstNumber >= WARM_SECONDS * PER_SECOND,
  );
  const waits = healthy.flatMap(([number, at]) => {
    const arrived = receivers.arrived.get(number);
    return arrived === undefined ? [] : [arrived - at];
  });
  return { ...percentiles(waits), missing: healthy.length - waits.length };
}

/** Measures a worker's memory under a steady load, and its growth after the first third of the time. */
export async function measureMemory(
  database: BenchDatabase,
  record: FigureRecord,
  minutes: number,
): Promise<void> {
  const { db } = database;
  const receivers = await startReceivers();
  const worker = await startEmbeddedWorker(database);
  try {
    const connections = await makeConnections(
      db,
      Array.from({ length: MEMORY_ENDPOINTS }, (_, n) => receivers.url(n)),
    );
    const samples: { minute: number; heap: number; resident: number }[] = [];
    const transactions = PER_SECOND * 60 * minutes;
    const load = { db, connections, transactions, transactionsPerSecond: PER_SECOND, eventsEach: 1 };
    let isOver = false;
    const running = runLoad(load).finally(() => {
      isOver = true;
    });
    const begun = performance.now();
    while (!isOver) {
      await sleep(MEMORY_EACH_MS);
      samples.push({ minute: (performance.now() - begun) / 60_000, ...(await worker.memory()) });
    }
    const committed = await running;
    const late = samples.filter(({ minute }) => minute > minutes / 3);
    record.add(`${minutes} minutes of load: committed`, "events", committed.size);
    record.add(`${minutes} minutes of load: delivered`, "events", receivers.arrived.size);
    for (const name of ["heap", "resident"] as const) {
      for (const sample of late) record.add(`worker: ${name}`, "MiB", sample[name]);
      const growth = slope(late.map((sample) => [sample.minute, sample[name]]));
      record.add(`worker: growth, ${name}`, "MiB a minute", growth);
    }
  } finally {
    await receivers.close();
    await worker.stop();
  }
}

/** Selects the embedded carrier first, because the database may have used Kafka before. */
async function startEmbeddedWorker({ db, url }: BenchDatabase) {
  await db("event_way").update({ way: "embedded" });
  return startBenchWorker(url);
}

/** The slope of the least-squares line through the points. */
function slope(points: readonly [number, number][]): number {
  const mean = (index: 0 | 1) => points.reduce((sum, point) => sum + point[index], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const above = points.reduce((sum, [px, py]) => sum + (px - x) * (py - y), 0);
  return above / points.reduce((sum, [px]) => sum + (px - x) ** 2, 0);
}
