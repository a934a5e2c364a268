import { mkdir } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { chances } from "../events/support/load.ts";
import { check, type Report } from "./check.ts";
import { dump, untilQuiet } from "./dump.ts";
import { BROKER_FAULTS, crashPostgres, type Fault, type Scene, WORKER_FAULTS } from "./faults.ts";
import { openLines } from "./lines.ts";
import { keepWorkers, openWorld } from "./world.ts";

/** The options of a run: its folder, its random seed, and for how many seconds it inflicts faults. */
export type SoakOptions = { folder: string; seed: number; seconds: number; say(line: string): void };

const WORKERS = 2;
const CONNECTIONS = 20;
const CALM_CONNECTIONS = 5;
const ACCOUNTS = 8;
const PER_SECOND = 60;
const CALM_SECONDS = 5;
const QUIET_SECONDS = 300;
/** Milliseconds between two faults of one kind. */
const PAUSE_MS = 4_000;
const POSTGRES_PAUSE_MS = 8_000;

/**
 * Inflicts faults on three brokers, workers and Postgres under load. Then repairs everything, waits until all
 * events have arrived, and checks the recorded lines.
 */
export async function soak({ folder, seed, seconds, say }: SoakOptions): Promise<Report> {
  await mkdir(folder, { recursive: true });
  const world = await openWorld(folder, seed);
  try {
    const chance = chances(seed);
    const kept = keepWorkers(world, WORKERS);
    const accounts = await world.openAccounts(ACCOUNTS);
    const connections = await world.connect(CONNECTIONS);
    const load = { perSecond: PER_SECOND, accounts };
    const generator = world.startGenerator({ ...load, seed, connections });
    await inflictAll({ world, workers: kept.workers, chance }, { folder, seconds, say });
    await generator.end();
    const calm = world.startGenerator({
      ...load,
      seed: seed + 1,
      connections: await world.connect(CALM_CONNECTIONS),
    });
    await sleep(CALM_SECONDS * 1_000);
    await calm.end();
    await untilQuiet(world, QUIET_SECONDS);
    await kept.stop();
    await dump(world);
  } finally {
    await world.stop();
  }
  return check(folder);
}

type Plan = Pick<SoakOptions, "folder" | "seconds" | "say">;

/** Runs three concurrent series of faults. Each begins with every fault of its kind once. */
async function inflictAll(scene: Scene, { folder, seconds, say }: Plan): Promise<void> {
  const lines = openLines(folder, "faults");
  const end = performance.now() + seconds * 1_000;

  async function inflict(fault: Fault): Promise<void> {
    const from = Date.now();
    const name = await fault(scene);
    lines.write({ name, from, until: Date.now() });
    say(`${Math.round((performance.now() - end) / 1_000 + seconds)} s  ${name}`);
  }

  async function row(faults: readonly Fault[], pauseMs: number): Promise<void> {
    const first = faults.toSorted(() => scene.chance() - 0.5);
    for (let n = 0; performance.now() < end; n += 1) {
      const drawn = faults[Math.floor(scene.chance() * faults.length)];
      const fault = first[n] ?? drawn;
      await sleep(pauseMs * scene.chance());
      if (fault !== undefined && performance.now() < end) await inflict(fault);
    }
  }

  await Promise.all([
    row(BROKER_FAULTS, PAUSE_MS),
    row(WORKER_FAULTS, PAUSE_MS),
    row([crashPostgres], POSTGRES_PAUSE_MS * 2),
  ]);
  await lines.close();
}

/** Formats the report as human-readable lines. */
export function described({ faults, problems, ...numbers }: Report): string[] {
  const counts = Object.entries(numbers).map(([name, value]) => `${value} ${words(name)}`);
  const total = Object.values(faults).reduce((sum, count) => sum + count, 0);
  return [
    counts.join(", "),
    `${total} faults:`,
    ...Object.entries(faults).map(([name, count]) => `  ${count} × ${name}`),
    problems.length === 0 ? "Nothing is wrong." : "Wrong:",
    ...problems.map((problem) => `  ${problem}`),
  ];
}

function words(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

/** Returns sentences about parts with so little activity that the absence of problems proves nothing. */
export function idleness(report: Report, seconds: number): string[] {
  const { events, decisions, poison, orderedConnections, orderedAccounts, faults, mostExtraRequests } =
    report;
  const crashes = faults["Postgres stopped immediately"] ?? 0;
  const inflicted = Object.values(faults).reduce((sum, count) => sum + count, 0);
  const parts: [string, boolean][] = [
    ["more events than seconds", events > seconds],
    ["a decision in ten seconds", decisions > seconds / 10],
    ["poison", poison > 0],
    ["an order of a connection to compare", orderedConnections > 0],
    ["an order of an account to compare", orderedAccounts > 0],
    ["enough stops of Postgres", crashes >= Math.min(10, seconds / 18)],
    ["at most as many repeats as faults", mostExtraRequests <= inflicted],
  ];
  return parts.filter(([, isThere]) => !isThere).map(([what]) => `The run did not have ${what}`);
}
