import { keep, keptInputs } from "./corpus.ts";
import { startCoverage } from "./coverage.ts";
import { fuzz } from "./loop.ts";
import { genuineDocuments } from "./seeds.ts";
import { createShorthand } from "./shorthand.ts";
import { targetsOf } from "./targets.ts";

/**
 * `node test/fuzz/collect.ts [seconds [seed]]`: fuzzes, and adds the shortest inputs that have a new result
 * or run new source code to the corpus. Exits with 1 if the run finds a fault.
 */
const LONGEST_KEPT = 6000;
const [seconds = 60, seed = 1] = process.argv.slice(2).map(Number);

const genuine = await genuineDocuments();
const targets = targetsOf(genuine);
const shorthand = createShorthand(genuine);
const folder = new URL("../../src/protocol/", import.meta.url).href;
const candidates = await interestingInputs();
const coverage = startCoverage(folder);
const outcomes = new Set<string>();
for (const { target, input } of keptInputs(shorthand)) await runOne(target, input);
for (const { name, seeds } of targets) for (const input of seeds) await runOne(name, input);
coverage.countNew();

let added = 0;
for (const { target, input } of candidates) {
  const isNew = await runOne(target, input);
  const reached = coverage.countNew();
  if (!isNew && reached === 0) continue;
  const why = isNew ? "has a new result" : "reaches new source";
  keep({ target, outcome: await outcomeOf(target, input), why, input }, shorthand);
  added += 1;
}
coverage.close();
console.log(`${added} of ${candidates.length} inputs added to the corpus`);

async function interestingInputs(): Promise<{ target: string; input: Uint8Array }[]> {
  const kept: { target: string; input: Uint8Array; size: number }[] = [];
  const guide = startCoverage(folder);
  const end = performance.now() + seconds * 1000;
  await fuzz(targets, {
    seed,
    coverage: guide,
    goesOn: () => performance.now() < end,
    starts: () => {},
    finds: ({ target, message }) => {
      console.error(`${target}: ${message}`);
      process.exitCode = 1;
    },
    keeps: (target, input) => kept.push({ target, input, size: shorthand.shorten(input).length }),
  });
  guide.close();
  return kept.filter(({ size }) => size <= LONGEST_KEPT).sort((left, right) => left.size - right.size);
}

async function runOne(name: string, input: Uint8Array): Promise<boolean> {
  const outcome = `${name} ${await outcomeOf(name, input)}`;
  const isNew = !outcomes.has(outcome);
  outcomes.add(outcome);
  return isNew;
}

async function outcomeOf(name: string, input: Uint8Array): Promise<string> {
  const target = targets.find((each) => each.name === name);
  if (target === undefined) throw new Error(`no target ${name}`);
  return target.run(input);
}
