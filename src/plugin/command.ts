import type { Clock } from "./clock.ts";
import { Failure, type Kubectl, UsageFailure } from "./kubectl.ts";

/** The input and output of the plugin. */
export type Terminal = {
  out(text: string): void;
  /** Prints questions, progress and refusals, which are not part of the command's result. */
  note(text: string): void;
  /** Reads the whole standard input. */
  input(): Promise<string>;
  /** Width in columns; 80 if the output is not a terminal. */
  width: number;
  /** Asks a question and returns whether the answer is yes. Throws `Failure` if nobody can answer. */
  confirm(question: string): Promise<boolean>;
};

/** The options of a command line by name. An option without a value is `true`. */
export type Options = Readonly<Record<string, string | boolean | undefined>>;

/** Everything that a command works with. */
export type Context = {
  kubectl: Kubectl;
  terminal: Terminal;
  clock: Clock;
  options: Options;
  names: readonly string[];
  wait(ms: number): Promise<void>;
};

/** `takes` is the name of the option's value. */
type OptionHelp = { short?: string; takes?: string; help: string };

/** The names that completion offers for a command. */
export type Named = "delegation" | "platform" | "any" | "none";

/** One command of the plugin. */
export type Command = {
  summary: string;
  /** The arguments in the help text. */
  usage: string;
  named: Named;
  options: Readonly<Record<string, OptionHelp>>;
  /** Runs the command. Throws `Failure` with a message that says what to do. */
  run(context: Context): Promise<void>;
};

/** Returns the string value of an option; `undefined` if the option is absent. */
export function textOf(options: Options, name: string): string | undefined {
  const value = options[name];
  return typeof value === "string" ? value : undefined;
}

/** Options that several commands share. */
export const shared = {
  output: { short: "o", takes: "json", help: "print JSON" },
  yes: { short: "y", help: "do not ask for confirmation" },
  dryRun: { help: "let the cluster check the change, but change nothing" },
  noWait: { help: "do not wait for the result" },
  timeout: { takes: "seconds", help: "how long to wait; default 60" },
  operatorNamespace: { takes: "name", help: "the operator's namespace; default deputize-system" },
} as const satisfies Record<string, OptionHelp>;

const OPERATOR_NAMESPACE = "deputize-system";

/** Returns the operator's namespace: `--operator-namespace`, or the chart's default. */
export function operatorNamespaceOf(options: Options): string {
  return textOf(options, "operator-namespace") ?? OPERATOR_NAMESPACE;
}

const SECONDS = 60;
const LOOK_MS = 500;

/** Returns the seconds in `--timeout`. Throws `UsageFailure`. */
export function timeoutOf(options: Options): number {
  const seconds = Number(textOf(options, "timeout") ?? SECONDS);
  if (!(seconds > 0)) throw new UsageFailure("--timeout must be a number of seconds");
  return seconds;
}

/** Calls `done` repeatedly until it returns a value. Throws `Failure` after the time in `--timeout`. */
export async function waitFor<T>(
  { options, clock, wait }: Context,
  what: string,
  done: () => Promise<T | undefined>,
): Promise<T> {
  const seconds = timeoutOf(options);
  const end = clock.now().getTime() + seconds * 1000;
  for (;;) {
    const found = await done();
    if (found !== undefined) return found;
    if (clock.now().getTime() >= end) {
      throw new Failure(`${what} takes longer than ${seconds} s; kubectl deputize status shows its progress`);
    }
    await wait(LOOK_MS);
  }
}
