import { parentPort, workerData } from "node:worker_threads";
import { keptInputs } from "./corpus.ts";
import { startCoverage } from "./coverage.ts";
import { shareCurrent } from "./current.ts";
import { fuzz } from "./loop.ts";
import type { Genuine } from "./seeds.ts";
import { createShorthand } from "./shorthand.ts";
import { targetsOf } from "./targets.ts";

export type WorkerData = {
  seed: number;
  seconds: number;
  memory: SharedArrayBuffer;
  genuine: Genuine;
};

/** Runs in a separate thread, which the main thread can stop if an input hangs. */
const { seed, seconds, memory, genuine }: WorkerData = workerData;
const current = shareCurrent(memory);
const kept = Map.groupBy(keptInputs(createShorthand(genuine)), ({ target }) => target);
const targets = targetsOf(genuine).map((target) => ({
  ...target,
  seeds: [...target.seeds, ...(kept.get(target.name) ?? []).map(({ input }) => input)],
}));
const coverage = startCoverage(new URL("../../src/protocol/", import.meta.url).href);
const end = performance.now() + seconds * 1000;
const tally = await fuzz(targets, {
  seed,
  coverage,
  goesOn: () => performance.now() < end,
  starts: current.write,
  finds: (finding) => parentPort?.postMessage({ finding }),
});
coverage.close();
parentPort?.postMessage({ tally });
