import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import type { CodeReader } from "../person.ts";

/** Asks at the terminal for the code that was mailed. */
export function askForCode(
  { input, output }: { input: NodeJS.ReadableStream; output: NodeJS.WritableStream },
  interrupted: AbortSignal,
  begin: () => void,
): CodeReader {
  return async ({ email }) => {
    begin();
    // Not as a terminal: Ctrl-C is to reach this process.
    const lines = createInterface({ input, output, terminal: false });
    try {
      const answer = lines.question(`The code that was mailed to ${email}: `, { signal: interrupted });
      const code = await Promise.race([answer, once(lines, "close").then(() => "")]);
      if (code.trim() === "") throw new Error("No code was given");
      return code.trim();
    } finally {
      lines.close();
    }
  };
}
