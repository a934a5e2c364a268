import type { Clock } from "./clock.ts";
import { Failure, type Kubectl, UsageFailure } from "./kubectl.ts";

/** Where the plugin reads and writes. */
export type Terminal = {
  out(text: string): void;
  /** For what is not the result: questions, progress, refusals. */
  note(text: string): void;
  /** What comes on the standard input. */
  input(): Promise<string>;
  /** Columns; those of a narrow terminal where the output goes elsewhere. */
  width: number;
  /** Whether somebody said yes. Throws `Failure` where nobody can be asked. */
  confirm(question: string): Promise<boolean>;
};

/** The options of a command line by name: text, or `true` where there is none to give. */
export type Options = Readonly<Record<string, string | boolean | undefined>>;

/** What a command works with. */
export type Context = {
  kubectl: Kubectl;
  terminal: Terminal;
  clock: Clock;
  options: Options;
  /** What was named. */
  names: readonly string[];
  wait(ms: number): Promise<void>;
};

/** An option: what it takes, if anything, and what it does. */
type OptionHelp = { short?: string; takes?: string; help: string };

/** Kinds of names that a command takes, for completion. */
export type Named = "delegation" | "platform" | "any" | "none";

/** One command of the plugin. */
export type Command = {
  summary: string;
  /** What follows its name. */
  usage: string;
  named: Named;
  options: Readonly<Record<string, OptionHelp>>;
  /** Does it. Throws `Failure` with what a person can do about it. */
  run(context: Context): Promise<void>;
};

/** An option's text; `undefined` when it is not given. */
export function textOf(options: Options, name: string): string | undefined {
  const value = options[name];
  return typeof value === "string" ? value : undefined;
}

/** Options that several commands have. */
export const shared = {
  output: { short: "o", takes: "json", help: "print JSON" },
  yes: { short: "y", help: "do not ask" },
  dryRun: { help: "have the cluster check it, and change nothing" },
  noWait: { help: "do not wait for what comes of it" },
  timeout: { takes: "seconds", help: "how long to wait; 60 when left out" },
  operatorNamespace: { takes: "name", help: "the operator's namespace; deputize-system when left out" },
} as const satisfies Record<string, OptionHelp>;

const SECONDS = 60;
const LOOK_MS = 500;

/** Looks until `done` has something to say, for as long as the options allow. Throws `Failure` after that. */
export async function waitFor<T>(
  { options, clock, wait }: Context,
  what: string,
  done: () => Promise<T | undefined>,
): Promise<T> {
  const seconds = Number(textOf(options, "timeout") ?? SECONDS);
  if (!(seconds > 0)) throw new UsageFailure("--timeout is a number of seconds");
  const end = clock.now().getTime() + seconds * 1000;
  for (;;) {
    const found = await done();
    if (found !== undefined) return found;
    if (clock.now().getTime() >= end) {
      throw new Failure(
        `${what} takes longer than ${seconds} s; kubectl deputize status shows how it goes on`,
      );
    }
    await wait(LOOK_MS);
  }
}
