import { createInterface } from "node:readline/promises";
import { text } from "node:stream/consumers";
import type { Terminal } from "./command.ts";
import { Failure } from "./kubectl.ts";

const NARROW = 80;

/** Returns the terminal of this process. Without an interactive terminal, `confirm` cannot ask anybody. */
export function processTerminal(): Terminal {
  const { stdin, stdout, stderr } = process;
  return {
    out: (output) => void stdout.write(output),
    note: (output) => void stderr.write(output),
    input: () => text(stdin),
    width: stdout.columns ?? NARROW,
    async confirm(question) {
      if (!stdin.isTTY) throw new Failure("There is no terminal for a confirmation: add --yes");
      const lines = createInterface({ input: stdin, output: stderr });
      try {
        return /^y(es)?$/i.test((await lines.question(`${question} [y/N] `)).trim());
      } finally {
        lines.close();
      }
    },
  };
}
