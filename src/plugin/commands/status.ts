import { type Command, type Context, shared } from "../command.ts";
import { Failure, UsageFailure } from "../kubectl.ts";
import {
  type AnyObject,
  conditionOf,
  type Delegation,
  type KindName,
  objectOf,
  reasonOf,
  resources,
} from "../objects.ts";
import { type Column, duration, relative, table, visible, wrapped } from "../text.ts";
import { type Line, linesText, nextOf, requestLines, stateLines } from "./describe.ts";
import { showOrphans } from "./orphans.ts";

/** The command `status`: shows all objects in a table, or one object in detail. */
export const status: Command = {
  summary: "Show the state of all objects, or of one object in detail",
  usage: "[delegation | platform/<name> | agent/<name>]",
  named: "any",
  options: {
    "all-namespaces": { short: "A", help: "objects of all namespaces" },
    orphans: { help: "delegations in force whose object is gone" },
    confirm: { help: "with --orphans: let the operator revoke the held ones after its grace period" },
    "operator-namespace": shared.operatorNamespace,
    yes: shared.yes,
    output: shared.output,
  },
  run(context) {
    const { names, options } = context;
    if (options.orphans !== true && options.confirm === true) {
      throw new UsageFailure("--confirm needs --orphans");
    }
    if (options.orphans !== true) return names.length === 0 ? showAll(context) : showOne(context);
    if (names.length > 0) throw new UsageFailure("--orphans takes no name");
    return showOrphans(context);
  },
};

async function showAll({ kubectl, terminal, clock, options }: Context): Promise<void> {
  const everywhere = options["all-namespaces"] === true;
  const names = Object.values(resources).join(",");
  const objects = await kubectl.list<AnyObject>([names, ...(everywhere ? ["-A"] : [])]);
  if (options.output === "json") {
    terminal.out(`${JSON.stringify(objects, undefined, 2)}\n`);
    return;
  }
  if (objects.length === 0) {
    terminal.out(
      everywhere
        ? "There are no Deputize objects in the cluster.\n"
        : "There are no Deputize objects here.\n",
    );
    return;
  }
  const now = clock.now();
  const columns: Column<AnyObject>[] = [
    ...(everywhere
      ? [{ heading: "NAMESPACE", of: (object: AnyObject) => object.metadata.namespace ?? "" }]
      : []),
    { heading: "NAME", of: ({ kind, metadata }) => `${kind.toLowerCase()}/${metadata.name}` },
    { heading: "READY", of: (object) => conditionOf(object, "Ready")?.status ?? "Unknown", dropsAt: 3 },
    { heading: "REASON", of: reasonOf },
    { heading: "ENDS", of: (object) => endOf(object, now) },
    { heading: "AGE", of: ({ metadata }) => ageOf(metadata.creationTimestamp, now), dropsAt: 2 },
    { heading: "GRANTED", of: grantedOf, dropsAt: 1 },
  ];
  terminal.out(table(objects, columns, terminal.width));
}

function endOf(object: AnyObject, now: Date): string {
  if (object.kind !== "Delegation") return "";
  const { status } = object as Delegation;
  return status?.certStatus === "Active" ? relative(status.expiresAt, now) || "when revoked" : "";
}

function ageOf(created: string | undefined, now: Date): string {
  return created === undefined ? "" : duration(now.getTime() - Date.parse(created));
}

function grantedOf(object: AnyObject): string {
  return object.kind === "Delegation" ? ((object as Delegation).status?.approvedScope ?? []).join(",") : "";
}

async function showOne({ kubectl, terminal, clock, options, names }: Context): Promise<void> {
  const [named = "", ...others] = names;
  if (others.length > 0) throw new UsageFailure(`Name only one object, not also ${others.join(", ")}`);
  const [kind, name] = kindAndName(named);
  const object = await objectOf<AnyObject>(kubectl, kind, name);
  if (options.output === "json") {
    terminal.out(`${JSON.stringify(object, undefined, 2)}\n`);
    return;
  }
  const now = clock.now();
  const lines: Line[] =
    object.kind === "Delegation"
      ? [...requestLines(object as Delegation, now), ...stateLines(object as Delegation, now)]
      : [
          [object.kind, `${object.metadata.namespace}/${object.metadata.name}`],
          ["State", reasonOf(object)],
          ["Message", conditionOf(object, "Ready")?.message ?? "the operator has not handled it yet"],
        ];
  terminal.out(linesText(lines, terminal.width));
  const next = nextOf(object);
  if (next !== undefined) terminal.out(`\n${wrapped(visible(next), terminal.width)}\n`);
}

/** Parses `platform/shop`, `agent/bot`, or the name of a Delegation. Throws `Failure` for any other kind. */
export function kindAndName(text: string): [KindName, string] {
  const [first = "", second, ...rest] = text.split("/");
  if (second === undefined) return ["delegation", first];
  const kind = first.replace(/s?(\.deputize\.io)?$/, "");
  if (rest.length > 0 || !(kind in resources)) {
    throw new Failure(
      `${text} is not a Deputize object: use platform/<name>, agent/<name>, or a delegation's name`,
    );
  }
  return [kind as KindName, second];
}
