import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { described, idleness, soak } from "./soak.ts";

/** `npm run soak`: inflicts faults on everything that carries events, for the given time. */
const program = new Command("soak")
  .description("Break brokers, workers and Postgres under load, and check that nothing was lost")
  .option("--seconds <number>", "duration of the faults", "1800")
  .option(
    "--seed <number>",
    "seed of an earlier run, to repeat it",
    String(Math.floor(Math.random() * 2 ** 31)),
  )
  .option("--keep", "keep the folder with logs and lines");
const { seconds, seed, keep } = program.parse().opts<{ seconds: string; seed: string; keep?: true }>();

const folder = await mkdtemp(join(tmpdir(), "deputize-soak-"));
const say = (line: string) => console.log(line);
say(`SEED=${seed}`);
const report = await soak({ folder, seed: Number(seed), seconds: Number(seconds), say });
for (const line of described(report)) say(line);
const idle = idleness(report, Number(seconds));
for (const line of idle) say(line);
const isGood = report.problems.length === 0 && idle.length === 0;
if (isGood && keep === undefined) await rm(folder, { recursive: true, force: true });
else say(`All files of the run are in ${folder}`);
process.exitCode = isGood ? 0 : 1;
