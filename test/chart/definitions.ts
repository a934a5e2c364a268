import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { goModule } from "../support/go_module.ts";
import { CHART, objectsOf, type Rendered } from "./render.ts";

/** A folder of definitions, or the name of what is missing to obtain it. */
export type Folder = { folder: string; missing?: never } | { folder?: never; missing: string };

export type Definitions = { folder(): Promise<Folder>; files: RegExp };

export function ofModule(module: string, version: string, path: string, files: RegExp): Definitions {
  return {
    files,
    async folder() {
      const { folder, missing } = await goModule(module, version);
      return missing === undefined ? { folder: join(folder, path) } : { missing };
    },
  };
}

/** Definitions of the kinds of other projects that the chart uses. */
export const OTHERS: readonly Definitions[] = [
  ofModule("sigs.k8s.io/gateway-api", "v1.5.1", "config/crd/standard", /_(gateways|httproutes)\.yaml$/),
  ofModule(
    "github.com/prometheus-operator/prometheus-operator",
    "v0.85.0",
    "example/prometheus-operator-crd",
    /_(servicemonitors|podmonitors|prometheusrules)\.yaml$/,
  ),
  ofModule(
    "github.com/cert-manager/cert-manager",
    "v1.21.2",
    "deploy/crds",
    /cert-manager\.io_(certificates|issuers)\.yaml$/,
  ),
];

export async function missingDefinitions(sources: readonly Definitions[]): Promise<string | undefined> {
  const folders = await Promise.all(sources.map((source) => source.folder()));
  return folders.find(({ missing }) => missing !== undefined)?.missing;
}

export async function definitionsOf(sources: readonly Definitions[]): Promise<Rendered[]> {
  const folders = await Promise.all(
    sources.map(async ({ folder, files }) => ({ folder: (await folder()).folder ?? "", files })),
  );
  const all = [{ folder: join(CHART, "crds"), files: /\.yaml$/ }, ...folders];
  const texts = all.map(async ({ folder, files }) => {
    const names = (await readdir(folder)).filter((name) => files.test(name));
    return Promise.all(names.map((name) => readFile(join(folder, name), "utf8")));
  });
  const definitions = (await Promise.all(texts)).flat().flatMap(objectsOf);
  return definitions.filter(({ kind }) => kind === "CustomResourceDefinition");
}
