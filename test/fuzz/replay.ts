import { keptInputs } from "./corpus.ts";
import { genuineDocuments } from "./seeds.ts";
import { createShorthand } from "./shorthand.ts";
import { targetsOf } from "./targets.ts";

/** Runs the corpus. Prints each input whose result is not as recorded, and exits with 1 if there is one. */
const genuine = await genuineDocuments();
const targets = targetsOf(genuine);
const kept = keptInputs(createShorthand(genuine));
for (const [index, { target, outcome, input }] of kept.entries()) {
  const answer = await answerOf(target, input);
  if (answer === outcome) continue;
  console.log(`${target}, input ${index}: ${answer} instead of ${outcome}`);
  process.exitCode = 1;
}

async function answerOf(name: string, input: Uint8Array): Promise<string | undefined> {
  try {
    return await targets.find((target) => target.name === name)?.run(input);
  } catch (error) {
    return String(error);
  }
}
