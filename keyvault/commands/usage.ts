import type { Command } from "commander";

/**
 * Has a command, and all those below it, tell of a wrong use as of every other failure: one line on standard
 * error that begins with the program's name, and that says which command's help to ask for.
 */
export function complainInOneLine(command: Command, above = ""): void {
  const name = `${above}${command.name()}`;
  command.configureOutput({
    outputError: (text, write) => write(`${complaintOf(text)}; see "${name} --help"\n`),
  });
  for (const sub of command.commands) complainInOneLine(sub, `${name} `);
}

function complaintOf(text: string): string {
  return `keyvault: ${text
    .trim()
    .replace(/^error: /, "")
    .replaceAll(/\s*\n\s*/g, " ")}`;
}
