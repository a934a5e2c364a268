import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { englishSample } from "./support/english_sample.ts";
import { printMessages } from "./support/messages.ts";

/**
 * `npm run messages` prints every message of an error, a refusal or a failed check. With `--sample <seed>` it
 * prints a random sample of comments, test names, messages and pages for a reader to judge.
 */
const ROOT = fileURLToPath(new URL("..", import.meta.url));
const { values } = parseArgs({ options: { sample: { type: "string" } } });

if (values.sample === undefined) await printMessages(ROOT);
else process.stdout.write(`${englishSample(ROOT, Number(values.sample))}\n`);
