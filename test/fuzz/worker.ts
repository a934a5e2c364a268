import { parentPort, workerData } from "node:worker_threads";
import { startCoverage } from "./coverage.ts";
import { shareCurrent } from "./current.ts";
import { fuzz } from "./loop.ts";
import { allTargets } from "./targets.ts";

/** Runs in a thread of its own, which can be ended from outside when an input makes it hang. */
const { seed, seconds, memory }: { seed: number; seconds: number; memory: SharedArrayBuffer } = workerData;
const current = shareCurrent(memory);
const coverage = startCoverage(new URL("../../src/protocol/", import.meta.url).href);
const end = performance.now() + seconds * 1000;
const tally = await fuzz(await allTargets(), {
  seed,
  coverage,
  goesOn: () => performance.now() < end,
  starts: current.write,
  finds: (finding) => parentPort?.postMessage({ finding }),
});
coverage.close();
parentPort?.postMessage({ tally });
