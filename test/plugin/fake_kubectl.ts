import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import { runPlugin } from "../../src/plugin/run.ts";

export const NOW = new Date("2026-06-01T12:00:00Z");

/**
 * Selects the answer by the first two words of the command. Several answers to one command come one after
 * another. An answer with `fails` is a message with status 1, after the output in `out`.
 */
const FAKE = `#!${process.execPath}
const fs = require("node:fs");
const [, , ...args] = process.argv;
const words = args.slice(0, 2).join(" ");
fs.appendFileSync(__filename + ".calls", JSON.stringify(args) + "\\n");
const calls = fs.readFileSync(__filename + ".calls", "utf8").trim().split("\\n").map((line) => JSON.parse(line));
const place = calls.filter((call) => call.slice(0, 2).join(" ") === words).length - 1;
const given = JSON.parse(fs.readFileSync(__filename + ".json", "utf8"))[words];
const answer = Array.isArray(given) ? given[Math.min(place, given.length - 1)] : given;
if (answer?.out) console.log(JSON.stringify(answer.out));
if (answer === undefined || answer.fails) { console.error(answer?.fails ?? "Error: unexpected " + args.join(" ")); process.exit(1); }
console.log(JSON.stringify(answer));
`;

export type FakeKubectl = {
  program: string;
  /** Whether the user answers yes to questions. */
  answer: boolean;
  out: string;
  notes: string;
  run(args: string[], answers?: Record<string, unknown>): Promise<number>;
  calls(): Promise<string[][]>;
};

/** Creates a new fake kubectl before each test. */
export function fakeKubectl(): FakeKubectl {
  let folder: string;
  const fake: FakeKubectl = {
    ...{ program: "", answer: true, out: "", notes: "" },
    async run(args, answers = {}) {
      await writeFile(`${join(folder, "kubectl.cjs")}.json`, JSON.stringify(answers));
      return runPlugin(args, {
        terminal: {
          out(text) {
            fake.out += text;
          },
          note(text) {
            fake.notes += text;
          },
          width: 80,
          input: async () => "",
          confirm: async () => fake.answer,
        },
        clock: { now: () => NOW },
        version: "1.2.3",
        wait: async () => undefined,
        program: fake.program,
      });
    },
    async calls() {
      const lines = await readFile(`${fake.program}.calls`, "utf8");
      return lines
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as string[]);
    },
  };
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "deputize-kubectl-"));
    Object.assign(fake, { program: join(folder, "kubectl.cjs"), answer: true, out: "", notes: "" });
    await writeFile(fake.program, FAKE);
    await chmod(fake.program, 0o755);
  });
  afterEach(() => rm(folder, { recursive: true }));
  return fake;
}
