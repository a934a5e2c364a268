import { parseArgs } from "node:util";
import type { Command, Options } from "./command.ts";
import { UsageFailure } from "./kubectl.ts";

/** Options that the plugin passes to kubectl: the cluster, the namespace, and the user. */
export const HANDED_ON: Readonly<Record<string, { type: "string" | "boolean"; short?: string }>> = {
  as: { type: "string" },
  "as-group": { type: "string" },
  "as-uid": { type: "string" },
  "as-user-extra": { type: "string" },
  "certificate-authority": { type: "string" },
  "client-certificate": { type: "string" },
  "client-key": { type: "string" },
  cluster: { type: "string" },
  context: { type: "string" },
  "insecure-skip-tls-verify": { type: "boolean" },
  kubeconfig: { type: "string" },
  namespace: { type: "string", short: "n" },
  "request-timeout": { type: "string" },
  server: { type: "string", short: "s" },
  "tls-server-name": { type: "string" },
  token: { type: "string" },
  user: { type: "string" },
};
/** Options of every command. */
const EVERYWHERE = {
  help: { type: "boolean", short: "h" },
  version: { type: "boolean", short: "V" },
} as const;
const REPEATED = new Set(["as-group", "as-user-extra"]);

/** A parsed command line. */
export type Arguments = {
  names: string[];
  options: Options;
  common: string[];
};

/** Parses the arguments after a command's name. Throws `UsageFailure`. */
export function readArguments(command: Command, args: readonly string[]): Arguments {
  const own = Object.entries(command.options).map(([name, { takes, short }]) => {
    const type = takes === undefined ? ("boolean" as const) : ("string" as const);
    return [name, { type, ...(short !== undefined && { short }) }] as const;
  });
  const handedOn = Object.entries(HANDED_ON).map(
    ([name, option]) => [name, { ...option, multiple: REPEATED.has(name) }] as const,
  );
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { ...EVERYWHERE, ...Object.fromEntries([...handedOn, ...own]) },
    });
    const given = values as Record<string, string | boolean | string[] | undefined>;
    const common = Object.keys(HANDED_ON).flatMap((name) => handOn(name, given[name]));
    const options = Object.entries(given).filter(([name]) => !(name in HANDED_ON));
    return { names: positionals, options: Object.fromEntries(options) as Options, common };
  } catch (error) {
    throw new UsageFailure(error instanceof Error ? error.message : String(error));
  }
}

function handOn(name: string, value: string | boolean | string[] | undefined): string[] {
  if (value === undefined) return [];
  if (typeof value === "boolean") return [`--${name}=${value}`];
  return [value].flat().map((each) => `--${name}=${each}`);
}

/** Returns the only name on the command line. Throws `UsageFailure` for no name, or for several. */
export function onlyName(names: readonly string[], what: string): string {
  const [name, ...others] = names;
  if (name === undefined) throw new UsageFailure(`Name ${what}`);
  if (others.length > 0) throw new UsageFailure(`Name only one object, not also ${others.join(", ")}`);
  return name;
}
