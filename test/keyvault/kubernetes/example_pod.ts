import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import type { Container, PodSpec, PodTemplate, Rendered } from "../../chart/render.ts";
import { cli } from "../command_line.ts";

const EXAMPLES = new URL("../../../docs/examples/keyvault/", import.meta.url);

/** Reads an example's pod template, with its labels. The template belongs to the example's last object. */
export async function readTemplate(file: string): Promise<PodTemplate> {
  const documents = parseAllDocuments(await readFile(new URL(file, EXAMPLES), "utf8"));
  const last = documents.map((document) => document.toJS({ maxAliasCount: 20 }) as Rendered).at(-1);
  if (last?.kind === "Pod") return { metadata: last.metadata, spec: last.spec };
  return last?.spec.template;
}

/** Reads the pod of an example, without its labels. */
export const readPod = async (file: string): Promise<PodSpec> => (await readTemplate(file)).spec;

/** A pod's containers as processes of this machine. */
export type LocalPod = {
  /** Translates a path in the pod, or a string that contains such a path, to this machine. */
  here(text: string): string;
  settingsOf(container: Container | undefined): Record<string, string>;
  run(container: Container | undefined): Promise<{ stdout: string; stderr: string }>;
};

/**
 * Runs a pod's containers on this machine. `root` is the pod's root folder and contains the folders of its
 * volume mounts. `replaced` maps strings in the example to strings for this machine.
 */
export async function startLocally(
  pod: PodSpec,
  root: string,
  replaced: readonly (readonly [string, string])[] = [],
): Promise<LocalPod> {
  const mounts = [...(pod.initContainers ?? []), ...pod.containers].flatMap(
    ({ volumeMounts = [] }) => volumeMounts,
  );
  const paths = new Set(mounts.map(({ mountPath }) => mountPath));
  for (const path of paths) await mkdir(join(root, path), { recursive: true });
  const here = (text: string) => {
    const named = replaced.reduce((done, [from, to]) => done.replace(from, to), text);
    const [, before = "", path = ""] = /^((?:--[a-z-]+=)?)(\/.*)$/.exec(named) ?? [];
    return [...paths].some((mounted) => path.startsWith(`${mounted}/`)) ? `${before}${root}${path}` : named;
  };
  const known = (container: Container | undefined) => {
    if (container === undefined) throw new Error("The example has no such container");
    return container;
  };
  const settingsOf = (container: Container | undefined) =>
    Object.fromEntries((known(container).env ?? []).map(({ name, value = "" }) => [name, here(value)]));
  return {
    here,
    settingsOf,
    run: async (container) =>
      cli({ environment: settingsOf(container) }, ...(known(container).args ?? []).map(here)),
  };
}
