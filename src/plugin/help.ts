import type { Command } from "./command.ts";
import { commands } from "./commands.ts";
import { labelled, wrapped } from "./text.ts";

const NAME = "kubectl deputize";
const INDENT = "  ";

/** Returns the list of commands, in lines of at most `width` columns. */
export function overview(width: number): string {
  const lines = Object.entries(commands).map(([name, { summary }]) => [name, summary] as const);
  return [
    "Delegations of authority to AI agents, from the command line.",
    `${NAME} <command>`,
    labelled(lines, width, INDENT),
    wrapped(
      "The options of kubectl select cluster, namespace and user: -n, --context, --kubeconfig, --as and others.",
      width,
    ),
    wrapped(
      `${NAME} <command> --help shows its options. Exit status: 0 done, 1 refused or failed, 2 invalid command line.`,
      width,
    ),
    "",
  ]
    .join("\n\n")
    .trimEnd()
    .concat("\n");
}

/** Returns the help text of one command. */
export function helpOf(name: string, { summary, usage, options }: Command, width: number): string {
  const lines = Object.entries(options).map(([option, { short, takes, help }]) => {
    const form = `--${option}${takes === undefined ? "" : ` ${takes}`}`;
    return [short === undefined ? `    ${form}` : `-${short}, ${form}`, help] as const;
  });
  const parts = [wrapped(`${summary}.`, width), `${NAME} ${name} ${usage}`.trimEnd()];
  return `${[...parts, labelled(lines, width, INDENT)].join("\n\n")}\n`;
}
