import { type Command, type Context, shared, textOf } from "../command.ts";
import { Failure, UsageFailure } from "../failure.ts";
import { KubectlFailure, type KubernetesObject } from "../kubectl.ts";
import { wrapped } from "../output/paragraph.ts";
import { table } from "../output/table.ts";
import { visible } from "../output/text.ts";
import { entryFaults, type TenantsMap } from "../tenants.ts";
import { OPERATOR_NAMESPACE } from "./orphans.ts";

const NAME = "deputize-tenants";
const LABEL = "deputize.io/tenants";

/** One entry, and what is wrong with it. */
type Entry = { configMap: string; namespace: string; faults: string[] };

/** `tenants check`: whether the bindings of namespaces to accounts will be understood. */
export const tenants: Command = {
  summary: "Check the bindings of namespaces to accounts",
  usage: "check",
  named: "none",
  options: {
    filename: { short: "f", takes: "file", help: "check this file; what is in the cluster when left out" },
    "operator-namespace": shared.operatorNamespace,
    output: shared.output,
  },
  async run(context) {
    const { terminal, options, names } = context;
    if (names.join(" ") !== "check") {
      throw new UsageFailure("There is one thing to do: kubectl deputize tenants check");
    }
    const file = textOf(options, "filename");
    const maps = file === undefined ? await inCluster(context) : await inFile(context, file);
    if (maps.length === 0) {
      throw new Failure(`There is no ConfigMap ${NAME}, and none with the label ${LABEL}: "true"`);
    }
    const entries = await judged(context, maps);
    if (options.output === "json") {
      terminal.out(`${JSON.stringify(entries, undefined, 2)}\n`);
    } else {
      show(context, entries);
    }
    const count = entries.filter(({ faults }) => faults.length > 0).length;
    if (count > 0) throw new Failure(`${count} of ${entries.length} entries bind nothing`);
  },
};

function isBinding({ metadata: { name, labels } }: TenantsMap): boolean {
  return name === NAME || labels?.[LABEL] === "true";
}

async function inCluster({ kubectl, options }: Context): Promise<TenantsMap[]> {
  const namespace = textOf(options, "operator-namespace") ?? OPERATOR_NAMESPACE;
  const all = await kubectl.list<KubernetesObject & TenantsMap>(["configmaps", "-n", namespace]);
  return all.filter(isBinding);
}

async function inFile({ kubectl, terminal }: Context, file: string): Promise<TenantsMap[]> {
  const args = ["create", "-f", file, "--dry-run=client", "--validate=false"];
  const input = file === "-" ? await terminal.input() : undefined;
  const read = await kubectl.json<TenantsMap | { items: TenantsMap[] }>(args, input);
  const maps = "items" in read ? read.items : [read];
  const others = maps.filter((map) => !isBinding(map));
  if (others.length > 0) {
    const named = others.map(({ metadata }) => metadata.name).join(", ");
    throw new Failure(
      `${visible(named)}: is not named ${NAME} and has no label ${LABEL}: "true", so it binds nothing`,
    );
  }
  return maps;
}

async function judged(context: Context, maps: readonly TenantsMap[]): Promise<Entry[]> {
  const there = await namespaces(context);
  const all = maps.flatMap(({ metadata, data = {} }) =>
    Object.entries(data).map(([namespace, text]) => ({ configMap: metadata.name, namespace, text })),
  );
  const entries: Entry[] = [];
  for (const { configMap, namespace, text } of all) {
    const faults = await faultsOf(context, text);
    const others = all.filter((each) => each.namespace === namespace && each.configMap !== configMap);
    if (others.length > 0) {
      faults.push(`also in configmap ${others.map((each) => each.configMap).join(", ")}`);
    }
    if (there !== undefined && !there.has(namespace)) {
      faults.push("there is no such namespace in the cluster");
    }
    entries.push({ configMap, namespace, faults });
  }
  return entries;
}

/** The names of the namespaces; `undefined` when one may not know them. */
async function namespaces({ kubectl }: Context): Promise<Set<string> | undefined> {
  try {
    return new Set((await kubectl.list(["namespaces"])).map(({ metadata }) => metadata.name));
  } catch (error) {
    if (error instanceof KubectlFailure) return undefined;
    throw error;
  }
}

/** kubectl reads the YAML of an entry, as a member that no ConfigMap has and that is only printed. */
async function faultsOf({ kubectl }: Context, text: string): Promise<string[]> {
  const indented = text.split("\n").map((line) => `  ${line}`);
  const manifest = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: check}\nentry:\n${indented.join("\n")}\n`;
  try {
    const args = ["create", "-f", "-", "--dry-run=client", "--validate=false"];
    return entryFaults((await kubectl.json<{ entry?: unknown }>(args, manifest)).entry);
  } catch (error) {
    if (!(error instanceof KubectlFailure) || !/yaml|json/i.test(error.message)) throw error;
    return ["the entry is not YAML"];
  }
}

function show({ terminal }: Context, entries: readonly Entry[]): void {
  const columns = [
    { heading: "NAMESPACE", of: ({ namespace }: Entry) => namespace },
    { heading: "CONFIGMAP", of: ({ configMap }: Entry) => configMap },
    { heading: "ENTRY", of: ({ faults }: Entry) => (faults.length === 0 ? "ok" : "faulty") },
  ];
  terminal.out(table(entries, columns, terminal.width));
  const faults = entries.flatMap((entry) => entry.faults.map((fault) => `${entry.namespace}: ${fault}`));
  if (faults.length > 0) terminal.out("\n");
  for (const fault of faults) terminal.out(`${wrapped(visible(fault), terminal.width)}\n`);
}
