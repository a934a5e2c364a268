import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { keep, keptInputs } from "./corpus.ts";
import { startCoverage } from "./coverage.ts";
import { fuzz, type Target } from "./loop.ts";
import { PLANTED_FAULTS } from "./planted_faults.ts";
import { copySources } from "./planting.ts";
import { genuineDocuments } from "./seeds.ts";
import { createShorthand } from "./shorthand.ts";
import { targetsOf } from "./targets.ts";

/**
 * `node test/fuzz/find_planted.ts <number of a fault> <seconds> [target]`: plants one fault of {@link
 * PLANTED_FAULTS} in a copy of the sources. It searches for an input whose result in the copy differs from
 * the original, and adds the shortest one to the corpus. Exits with 1 if there is none.
 */
const [number = 0, seconds = 10] = process.argv.slice(2).map(Number);
const only = process.argv[4];
const fault = PLANTED_FAULTS[number];
if (fault === undefined) throw new Error("no such fault");

const genuine = await genuineDocuments();
const shorthand = createShorthand(genuine);
const here = targetsOf(genuine);
const planting = await copySources();
await planting.plant(fault);
const copy = pathToFileURL(join(planting.folder, "test/fuzz/targets.ts")).href;
const { targetsOf: plantedTargetsOf } = (await import(copy)) as { targetsOf: typeof targetsOf };
const there = plantedTargetsOf(genuine);

const kept = Map.groupBy(keptInputs(shorthand), ({ target }) => target);
let shortest: { target: string; input: Uint8Array; size: number; outcome: string } | undefined;
const coverage = startCoverage(pathToFileURL(join(planting.folder, "src/protocol/")).href);
const end = performance.now() + seconds * 1000;
await fuzz(
  here
    .filter(({ name }) => only === undefined || name === only)
    .map((target) => ({
      ...compared(target),
      seeds: [...target.seeds, ...(kept.get(target.name) ?? []).map(({ input }) => input)],
    })),
  {
    seed: number + 1,
    coverage,
    goesOn: () => performance.now() < end && (shortest === undefined || shortest.size > 400),
    starts: () => {},
    finds: ({ message }) => console.error(message),
  },
);
coverage.close();
await planting.remove();
if (shortest === undefined) {
  console.log(`nothing shows in ${fault.file} that ${fault.name}`);
  process.exitCode = 1;
} else {
  const { target, outcome, input, size } = shortest;
  keep({ target, outcome, why: `shows in ${fault.file} that ${fault.name}`, input }, shorthand);
  console.log(`${fault.file}, ${fault.name}: ${target}, ${size} bytes`);
}

function compared(target: Target): Target {
  const planted = there.find(({ name }) => name === target.name);
  return {
    ...target,
    run: async (input) => {
      const outcome = await answerOf(target, input);
      const other = planted && (await answerOf(planted, input));
      const size = shorthand.shorten(input).length;
      if (outcome !== other && size < (shortest?.size ?? Number.POSITIVE_INFINITY)) {
        shortest = { target: target.name, input, size, outcome };
      }
      return outcome;
    },
  };
}

async function answerOf(target: Target, input: Uint8Array): Promise<string> {
  try {
    return await target.run(input);
  } catch (error) {
    return String(error);
  }
}
