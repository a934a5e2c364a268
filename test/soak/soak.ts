import { mkdir } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { chances } from "../events/support/load.ts";
import { check, type Report } from "./check.ts";
import { dump, untilQuiet } from "./dump.ts";
import { BROKER_FAULTS, crashPostgres, type Fault, type Scene, WORKER_FAULTS } from "./faults.ts";
import { openLines } from "./lines.ts";
import { keepWorkers, openWorld } from "./world.ts";

/** How a run goes: for how many seconds faults are inflicted, and by which chances. */
export type SoakOptions = { folder: string; seed: number; seconds: number; say(line: string): void };

const WORKERS = 2;
const CONNECTIONS = 20;
const CALM_CONNECTIONS = 5;
const ACCOUNTS = 8;
const PER_SECOND = 60;
const CALM_SECONDS = 5;
const QUIET_SECONDS = 300;
/** Pauses between the faults of a kind. */
const PAUSE_MS = 4_000;
const POSTGRES_PAUSE_MS = 8_000;

/**
 * Runs everything on real parts under load, with three brokers, and breaks one thing after another: brokers,
 * workers and Postgres at the same time. Then mends everything, waits until all has arrived, and has the
 * checker judge what the programs wrote down.
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

/**
 * Three rows of faults beside each other: of brokers, of workers, of Postgres. Each begins with all of its
 * own.
 */
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

/** The report in lines, for people. */
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

/** Names the parts of a run that did so little that finding no problem proves nothing. */
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
    ["no more repeats than faults", mostExtraRequests <= inflicted],
  ];
  return parts.filter(([, isThere]) => !isThere).map(([what]) => `The run did not have ${what}`);
}
