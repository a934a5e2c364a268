import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { type HelmRun, runHelm } from "../support/helm.ts";
import type { Values } from "./values.ts";

export const CHART = join(import.meta.dirname, "../../charts/deputize");
export const RELEASE = "deputize";
export const NAMESPACE = "deputize-system";

export type Rendered = {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
  };
  // biome-ignore lint/suspicious/noExplicitAny: objects of any kind
  [field: string]: any;
};

/** Runs Helm with these values. `undefined` stands for no values. */
export async function helmWithValues(
  path: string,
  command: readonly string[],
  values: Values | undefined,
  environment?: Record<string, string>,
): Promise<HelmRun> {
  if (values === undefined) return runHelm(path, command, environment);
  const folder = await mkdtemp(join(tmpdir(), "deputize-values-"));
  try {
    const file = join(folder, "values.json");
    await writeFile(file, JSON.stringify(values));
    return await runHelm(path, [...command, "--values", file], environment);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * Returns functions that run helm on the release's namespace: `run`, and `succeeds`, which throws helm's
 * message if it fails. `kubeconfig` is read at each run.
 */
export function helmIn(path: string, kubeconfig: () => string) {
  const run = (command: readonly string[], values?: Values) =>
    helmWithValues(path, [...command, "--namespace", NAMESPACE], values, { KUBECONFIG: kubeconfig() });
  const succeeds = async (command: readonly string[], values?: Values): Promise<void> => {
    const { isGood, err } = await run(command, values);
    if (!isGood) throw new Error(err);
  };
  return { run, succeeds };
}

type Rendering = { isUpgrade?: boolean; chart?: string; release?: string };

/** Renders the chart without a cluster and without its definitions. */
export function template(
  path: string,
  values: Values,
  { isUpgrade = false, chart = CHART, release = RELEASE }: Rendering = {},
): Promise<HelmRun> {
  const upgrade = isUpgrade ? ["--is-upgrade"] : [];
  const command = ["template", release, chart, "--namespace", NAMESPACE, "--kube-version", "1.33.0"];
  return helmWithValues(path, [...command, ...upgrade], values);
}

/** Throws `Error` with Helm's message if rendering fails. */
export async function render(...args: Parameters<typeof template>): Promise<Rendered[]> {
  const { isGood, out, err } = await template(...args);
  if (!isGood) throw new Error(err);
  return objectsOf(out);
}

/** Throws if the text is not YAML. */
export function objectsOf(text: string): Rendered[] {
  return parseAllDocuments(text)
    .filter((document) => document.contents !== null)
    .map((document) => {
      for (const error of document.errors) throw error;
      return document.toJS() as Rendered;
    })
    .filter((object) => object !== null);
}

export function nameOf({ kind, metadata }: Rendered): string {
  return `${kind} ${metadata.name}`;
}

export type PodTemplate = { metadata: Rendered["metadata"]; spec: PodSpec };
export type Container = {
  name: string;
  image: string;
  args?: string[];
  command?: string[];
  env?: { name: string; value?: string; valueFrom?: object }[];
  envFrom?: object[];
  ports?: { name: string; containerPort: number }[];
  resources?: { requests?: object; limits?: object };
  securityContext?: Record<string, unknown>;
  volumeMounts?: { name: string; mountPath: string; readOnly?: boolean }[];
  [field: string]: unknown;
};
export type PodSpec = {
  serviceAccountName: string;
  automountServiceAccountToken: boolean;
  securityContext: Record<string, unknown>;
  containers: Container[];
  initContainers?: Container[];
  // biome-ignore lint/suspicious/noExplicitAny: volumes of any kind
  volumes?: { name: string; [kind: string]: any }[];
  [field: string]: unknown;
};

export type Pod = { of: Rendered; template: PodTemplate };

/** Returns the pod templates of Deployments, StatefulSets, Jobs and CronJobs. A pod is its own template. */
export function podsOf(objects: readonly Rendered[]): Pod[] {
  return objects.flatMap((of) => {
    const template =
      of.kind === "Pod"
        ? of
        : of.kind === "CronJob"
          ? of.spec.jobTemplate.spec.template
          : of.spec?.template?.spec === undefined
            ? undefined
            : of.spec.template;
    return template === undefined ? [] : [{ of, template: template as PodTemplate }];
  });
}

/** Returns the containers of a pod, including init containers. */
export function containersOf({ template: { spec } }: Pod): Container[] {
  return [...(spec.initContainers ?? []), ...spec.containers];
}
