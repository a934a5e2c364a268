import { HANDED_ON } from "./arguments.ts";
import type { Named } from "./command.ts";
import { commands } from "./commands.ts";
import type { Kubectl } from "./kubectl.ts";
import { type KindName, resources } from "./objects.ts";

/** Makes kubectl complete no file names (cobra's ShellCompDirectiveNoFileComp). */
const NO_FILES = ":4";

/** Returns the completions of the last word, one per line, followed by cobra's directive. */
export async function complete(
  words: readonly string[],
  kubectl: (common: string[]) => Kubectl,
): Promise<string> {
  const typed = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  const found = (await candidates(before, typed, kubectl)).filter((each) => each.startsWith(typed));
  return `${[...found, NO_FILES].join("\n")}\n`;
}

async function candidates(
  before: readonly string[],
  typed: string,
  kubectl: (common: string[]) => Kubectl,
): Promise<string[]> {
  const [name] = before;
  if (name === undefined) return Object.keys(commands);
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined) return [];
  if (typed.startsWith("-")) {
    return [...Object.keys(command.options), ...Object.keys(HANDED_ON)].map((option) => `--${option}`);
  }
  return namesOf(command.named, kubectl(commonOf(before)));
}

/** Returns the options typed so far that select the cluster, the namespace or the user. */
function commonOf(before: readonly string[]): string[] {
  return before.flatMap((word, index) => {
    const option = word === "-n" ? "--namespace" : word;
    const [name = ""] = option.replace(/^--/, "").split("=");
    if (!option.startsWith("--") || !(name in HANDED_ON)) return [];
    return option.includes("=") ? [option] : [`${option}=${before[index + 1] ?? ""}`];
  });
}

async function namesOf(named: Named, kubectl: Kubectl): Promise<string[]> {
  const list = async (kind: KindName) =>
    (await kubectl.list([resources[kind]]).catch(() => [])).map(({ metadata }) => metadata.name);
  switch (named) {
    case "none":
      return [];
    case "any": {
      const [delegations, platforms] = await Promise.all([list("delegation"), list("platform")]);
      return [...delegations, ...platforms.map((name) => `platform/${name}`)];
    }
    default:
      return list(named);
  }
}
