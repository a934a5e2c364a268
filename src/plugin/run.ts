import { readArguments } from "./arguments.ts";
import type { Clock } from "./clock.ts";
import { type Context, type Terminal, timeoutOf } from "./command.ts";
import { commands } from "./commands.ts";
import { helpOf, overview } from "./help.ts";
import { createKubectl, Failure, UsageFailure } from "./kubectl.ts";
import { visible } from "./text.ts";

type World = {
  terminal: Terminal;
  clock: Clock;
  /** The version of this program. */
  version: string;
  wait(ms: number): Promise<void>;
  /** For tests: the program that replaces kubectl. */
  program?: string;
};

/** Exit status for an invalid command line. */
const USAGE = 2;

/**
 * Runs a command line. Returns the exit status: 0 for success, 1 for a failure, 2 for a wrong command line.
 */
export async function runPlugin(args: readonly string[], world: World): Promise<number> {
  const { terminal } = world;
  const [name = "", ...rest] = args;
  if (name === "") {
    terminal.note(overview(terminal.width));
    return USAGE;
  }
  if (name === "help" || name === "-h" || name === "--help") {
    terminal.out(overview(terminal.width));
    return 0;
  }
  if (name === "-V" || name === "--version") {
    terminal.out(`${world.version}\n`);
    return 0;
  }
  try {
    await runCommand(name, rest, world);
    return 0;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    terminal.note(`${lines(error.message)}\n`);
    if (!(error instanceof UsageFailure)) return 1;
    terminal.note(`(kubectl deputize ${name in commands ? `${name} ` : ""}--help shows the options)\n`);
    return USAGE;
  }
}

async function runCommand(name: string, rest: readonly string[], world: World): Promise<void> {
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined) throw new UsageFailure(`There is no command ${visible(name)}`);
  const { names, options, common } = readArguments(command, rest);
  const { terminal, clock, version, wait, program } = world;
  if (options.help === true) {
    terminal.out(helpOf(name, command, terminal.width));
    return;
  }
  if (options.version === true) {
    terminal.out(`${version}\n`);
    return;
  }
  if (options.output !== undefined && options.output !== "json") {
    throw new UsageFailure("--output must be json or absent");
  }
  // A command waits only after it has written, when it is too late to refuse.
  timeoutOf(options);
  const context: Context = { kubectl: createKubectl(common, program), terminal, clock, options, names, wait };
  await command.run(context);
}

/** Escapes unsafe characters in kubectl's output, which is untrusted and may span several lines. */
function lines(message: string): string {
  return message.split("\n").map(visible).join("\n");
}
