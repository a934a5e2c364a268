import { randomInt } from "node:crypto";
import { Worker } from "node:worker_threads";
import { keepFinding } from "./corpus.ts";
import { shareCurrent } from "./current.ts";
import type { FuzzFinding, Tally } from "./loop.ts";
import { genuineDocuments } from "./seeds.ts";
import { createShorthand } from "./shorthand.ts";
import type { WorkerData } from "./worker.ts";

/**
 * `npm run fuzz [-- seconds [seed]]`: coverage-guided fuzzing of the parser, every decoder and verification,
 * by default for 600 seconds. Exits with 1 if it finds a fault. The inputs with faults are added to
 * `test/fuzz/corpus`, and `npm test` runs them from then on.
 */
const DEFAULT_SECONDS = 600;
/** Limits for one input: processor time, and elapsed time if it waits forever. The slowest take 0.3 s. */
const HANG_CPU_MS = 10_000;
const HANG_MS = 120_000;
const LOOK_MS = 1000;
const HEAP_MB = 1024;

const [seconds, seed] = [
  Number(process.argv[2] ?? DEFAULT_SECONDS),
  Number(process.argv[3] ?? randomInt(2 ** 31)),
];
if (!(seconds > 0) || !Number.isSafeInteger(seed)) {
  console.error("Usage: npm run fuzz [-- seconds [seed]]");
  process.exit(2);
}
console.log(`fuzzing for ${seconds} s with seed ${seed}`);
const current = shareCurrent();
const genuine = await genuineDocuments();
const shorthand = createShorthand(genuine);
const worker = new Worker(new URL("./worker.ts", import.meta.url), {
  workerData: { seed, seconds, memory: current.memory, genuine } satisfies WorkerData,
  resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
});
const watch = watchForHang();
let tally: Tally | undefined;
let findings = 0;
worker.on("message", (message: { finding?: FuzzFinding; tally?: Tally }) => {
  if (message.finding !== undefined) report(message.finding);
  tally ??= message.tally;
});
worker.on("error", (error) => reportCurrent(`${error}`));
worker.on("exit", () => {
  clearInterval(watch);
  if (tally === undefined && findings === 0) reportCurrent("the thread ended");
  if (tally !== undefined) summarize(tally);
});

function watchForHang(): NodeJS.Timeout {
  let seen = { count: 0, since: 0, cpu: Number.POSITIVE_INFINITY };
  return setInterval(async () => {
    const { count } = current.read();
    const now = performance.now();
    if (count !== seen.count) {
      seen = { count, since: now, cpu: Number.POSITIVE_INFINITY };
      seen.cpu = await cpuMilliseconds();
    } else if (now - seen.since > HANG_MS || (await cpuMilliseconds()) - seen.cpu > HANG_CPU_MS) {
      await endHanging();
    }
  }, LOOK_MS);
}

/** Returns 0 if the thread has just exited. */
async function cpuMilliseconds(): Promise<number> {
  const { user, system } = await worker.cpuUsage().catch(() => ({ user: 0, system: 0 }));
  return (user + system) / 1000;
}

async function endHanging(): Promise<void> {
  clearInterval(watch);
  reportCurrent("no answer");
  await worker.terminate();
}

function reportCurrent(message: string): void {
  const { name, input } = current.read();
  report({ target: name, input, message });
}

function report(finding: FuzzFinding): void {
  findings += 1;
  process.exitCode = 1;
  console.error(`${finding.target}: ${finding.message}\n  kept as ${keepFinding(finding, shorthand)}`);
}

function summarize({ executed, kept, outcomes, covered }: Tally): void {
  const characters = `${covered} characters of source`;
  console.log(`${executed} inputs; ${kept} kept for mutation, ${outcomes} outcomes, ${characters} reached`);
  console.log(findings === 0 ? "nothing was found" : `${findings} findings`);
}
