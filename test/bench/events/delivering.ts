import { setTimeout as sleep } from "node:timers/promises";
import type { BenchDatabase } from "../database.ts";
import { median } from "../median.ts";
import { percentiles } from "../vault/timing.ts";
import { makeConnections, runLoad } from "./load.ts";
import { type BenchReceivers, startReceivers } from "./receiver.ts";
import { startBenchWorker } from "./worker_child.ts";

const ROUNDS = 2;
const ENDPOINTS = 200;
const HANGING = 40;
/** Far below what the machine can send: waits are to come from those that hang. */
const PER_SECOND = 60;
const WARM_SECONDS = 3;
const LOAD_SECONDS = 25;
const AFTERWARDS_MS = 5_000;
const MEMORY_EACH_MS = 10_000;
const MEMORY_ENDPOINTS = 50;

/** From the commit to the arrival at a healthy receiver, with no other hanging and with a fifth of them. */
export async function measureHanging(database: BenchDatabase) {
  const receivers = await startReceivers();
  const worker = startBenchWorker(database.url);
  const [none, some]: [Waits[], Waits[]] = [[], []];
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      none.push(await hangingRound(database, receivers, 2 * round, 0));
      some.push(await hangingRound(database, receivers, 2 * round + 1, HANGING));
    }
  } finally {
    await receivers.close();
    await worker.stop();
  }
  const middle = (rounds: Waits[], name: keyof Waits) => median(rounds.map((waits) => waits[name]));
  return [none, some].map((rounds, index) => ({
    hanging: `${index * HANGING} of ${ENDPOINTS}`,
    healthy_p50_ms: Number(middle(rounds, "p50").toFixed(1)),
    healthy_p99_ms: Number(middle(rounds, "p99").toFixed(1)),
    p99_of_none: Number(median(rounds.map(({ p99 }, n) => p99 / (none[n]?.p99 ?? 0))).toFixed(2)),
    missing: rounds.reduce((sum, { missing }) => sum + missing, 0),
  }));
}

type Waits = { p50: number; p99: number; missing: number };

/** On connections of its own. Afterwards they have no callback URL: what waits disturbs no other round. */
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
  // The same receivers in every round, whether the others hang or not.
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

/** What a worker holds under a steady load, and how fast that grows after its first third. */
export async function measureMemory({ db, url }: BenchDatabase, minutes: number) {
  const receivers = await startReceivers();
  const worker = startBenchWorker(url);
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
    return (["heap", "resident"] as const).map((name) => ({
      memory: name,
      minutes,
      events: committed.size,
      delivered: receivers.arrived.size,
      first_mib: Number((late[0]?.[name] ?? 0).toFixed(1)),
      last_mib: Number((late.at(-1)?.[name] ?? 0).toFixed(1)),
      mib_a_minute: Number(slope(late.map((sample) => [sample.minute, sample[name]])).toFixed(2)),
    }));
  } finally {
    await receivers.close();
    await worker.stop();
  }
}

/** Of the straight line through the points, by least squares. */
function slope(points: readonly [number, number][]): number {
  const mean = (index: 0 | 1) => points.reduce((sum, point) => sum + point[index], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const above = points.reduce((sum, [px, py]) => sum + (px - x) * (py - y), 0);
  return above / points.reduce((sum, [px]) => sum + (px - x) ** 2, 0);
}
