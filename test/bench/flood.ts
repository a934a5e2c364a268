import { startApiProcess } from "./api_process.ts";
import { type BenchDatabase, withBenchDatabase } from "./database.ts";
import type { Ratio } from "./results/figures.ts";
import { type FigureRecord, recordRounds } from "./results/record.ts";
import { report } from "./results/tables.ts";
import { type Measured, prepareLoad } from "./verify/load.ts";
import { createVerifiers, prove, requestOf, type Verifiers } from "./verify/proofs.ts";

/**
 * Measures how long calls wait beyond the machine's capacity, and how one account's flood affects another
 * account. Rounds with a flood alternate with rounds without one. Run `node test/bench/flood.ts`.
 */
const ROUNDS = 3;
const CONNECTIONS = [16, 64, 256, 1_000, 3_000];
/** Numbers of the flooding account's connections. With 64, calls wait. With 1,000, some are refused. */
const FLOODS = [64, 1_000];
/** Numbers of connections of the affected account. */
const QUIET = [1, 4, 16];
const MS = 4_000;
/** Proofs that a client prepares per second of its run, so that no client runs out of proofs. */
const PER_SECOND = 2_500;
/** All clients share one address here, but real tenants do not. */
const NO_BOUNDS = { CONNECTIONS_PER_IP: "10000", BODIES_PER_IP: "10000" };
/** Maximum time in milliseconds that a call may wait and be processed. */
const LONGEST_MS = 1_500;
const BOUND = "how long an answer may take";

await withBenchDatabase({}, async (database) => {
  const verifiers = await createVerifiers(database.db);
  const api = await startApiProcess(database.folder, database.url, verifiers.sealingKey, NO_BOUNDS);
  const place = { database, verifiers, port: api.port };
  try {
    const record = await recordRounds(ROUNDS, (each) => measureRound(place, each));
    report({ figures: record.figures(), ratios: ratios() });
  } finally {
    await api.stop();
  }
});

type Place = { database: BenchDatabase; verifiers: Verifiers; port: number };

async function measureRound(place: Place, record: FigureRecord): Promise<void> {
  for (const connections of CONNECTIONS) {
    const load = await clientOf(place, 0, { connections, name: "crowd" });
    addSeen(record, crowdOf(connections), await load.run());
  }
  for (const connections of QUIET) {
    const alone = await clientOf(place, 1, { connections, name: "quiet" });
    addSeen(record, aloneOf(connections), await alone.run());
    for (const flood of FLOODS) await measureBeside(place, record, connections, flood);
  }
  record.add(BOUND, "ms", LONGEST_MS);
}

async function measureBeside(place: Place, record: FigureRecord, connections: number, flood: number) {
  const name = besideOf(connections, flood);
  const flooding = await clientOf(place, 0, { connections: flood, name: "flood", ms: MS + 1_000 });
  const beside = await clientOf(place, 1, { connections, name: "quiet" });
  const flooded = flooding.run();
  await new Promise((resolve) => setTimeout(resolve, 500));
  addSeen(record, name, await beside.run());
  addSeen(record, `${name}: the flood`, await flooded);
}

async function clientOf(
  { database: { folder }, verifiers, port }: Place,
  account: number,
  { ms = MS, ...load }: { connections: number; name: string; ms?: number },
) {
  const world = verifiers.worlds[account];
  if (world === undefined) throw new Error(`there is no account ${account}`);
  const proofs = await prove({ ...verifiers, worlds: [world] }, (PER_SECOND * ms) / 1000);
  const requests = proofs.map((proof) => requestOf(proof, "bundle"));
  return prepareLoad({ port, folder }, requests, { ms, ...load });
}

function addSeen(record: FigureRecord, name: string, seen: Measured): void {
  if (seen.other > 0) throw new Error(`${name}: ${seen.other} answers were neither allow nor 503`);
  record.add(`${name}: decisions`, "a second", seen.perSecond);
  record.add(`${name}: refused`, "a second", seen.refused / (seen.ms / 1000));
  record.add(`${name}: p50`, "ms", seen.p50);
  record.add(`${name}: p99`, "ms", seen.p99);
  record.add(`${name}: longest answer`, "ms", seen.longest);
}

function crowdOf(connections: number): string {
  return `${connections} connections of one account`;
}

function aloneOf(connections: number): string {
  return `${connections} connections, nobody beside`;
}

function besideOf(connections: number, flood: number): string {
  return `${connections} connections beside ${flood}`;
}

function ratios(): Ratio[] {
  return [
    ...QUIET.flatMap((connections) =>
      FLOODS.map((flood): Ratio => {
        const [over, under] = [`${besideOf(connections, flood)}: p99`, `${aloneOf(connections)}: p99`];
        return { name: `${over} / alone`, over, under, aim: { atMost: 2 } };
      }),
    ),
    ...CONNECTIONS.map((connections): Ratio => {
      const over = `${crowdOf(connections)}: longest answer`;
      return { name: `${over} / ${BOUND}`, over, under: BOUND, aim: { atMost: 1 } };
    }),
    ...CONNECTIONS.slice(1).map((connections): Ratio => {
      const [over, under] = [`${crowdOf(connections)}: decisions`, `${crowdOf(16)}: decisions`];
      return { name: `${over} / with 16`, over, under, aim: { atLeast: 0.9 } };
    }),
  ];
}
