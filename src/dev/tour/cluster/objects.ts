import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import type { Kubectl, KubernetesObject } from "../../../plugin/kubectl.ts";
import { resources } from "../../../plugin/objects.ts";
import {
  CREDENTIALS_NAME,
  credentialsOf,
  type DeclaredObject,
  explanationOf,
  objectNames,
  type Quickstart,
  type QuickstartKind,
  quickstartFiles,
  stateOf,
  tourDelegation,
} from "../quickstart.ts";

/** An object to apply. */
export type Manifest = {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Record<string, string> };
  [field: string]: unknown;
};

/** Labels of all objects that the tour creates. */
export const TOUR_LABELS = { "app.kubernetes.io/managed-by": "deputize-tour" };

/** Applies objects in the given order. Throws `KubectlFailure`. */
export async function apply(kubectl: Kubectl, items: readonly Manifest[]): Promise<void> {
  await kubectl.run(["apply", "--filename=-"], JSON.stringify({ apiVersion: "v1", kind: "List", items }));
}

type ClusterQuickstart = {
  /** Calls kubectl in the namespace of the objects. */
  kubectl: Kubectl;
  /** Folder with the example's manifests. */
  examples: string;
  clusterId: string;
  namespace: string;
  /** Binds the namespace to the account, unless it is bound already. */
  bind(): Promise<void>;
  interrupted: AbortSignal;
};

const declared: Readonly<Record<QuickstartKind, string>> = {
  platform: resources.platform,
  agent: resources.agent,
  tour: resources.delegation,
  delegation: resources.delegation,
};

/** Objects that the tour declares, by their kubectl names. */
export const tourObjects = (["tour", "agent", "platform"] as const).map(
  (kind) => `${declared[kind]}/${objectNames[kind]}`,
);

/** Returns access to the example's objects in a cluster's namespace. */
export function openClusterQuickstart({
  kubectl,
  examples,
  clusterId,
  namespace,
  bind,
  interrupted,
}: ClusterQuickstart): Quickstart {
  const example = (file: string) => readFile(join(examples, file), "utf8");
  const found = (kind: QuickstartKind): Promise<(KubernetesObject & DeclaredObject) | undefined> =>
    kubectl.find(declared[kind], objectNames[kind]);

  function placed(text: string): Manifest {
    const manifest = parse(text) as Manifest;
    return { ...manifest, metadata: { ...manifest.metadata, namespace } };
  }

  return {
    place: async () => ({ clusterId, namespace }),
    async declarePlatform() {
      await bind();
      const texts = await Promise.all([example(quickstartFiles.platform), example(quickstartFiles.agent)]);
      await apply(kubectl, texts.map(placed));
    },
    async requestTour() {
      const manifest = tourDelegation(await example(quickstartFiles.delegation));
      await apply(kubectl, [placed(manifest.toString())]);
    },
    async credentials() {
      type Secret = KubernetesObject & { data?: Record<string, string> };
      return credentialsOf(await kubectl.find<Secret>("secrets", CREDENTIALS_NAME));
    },
    async objectState(kind) {
      interrupted.throwIfAborted();
      return stateOf(await found(kind));
    },
    explain: async (kind) => explanationOf(await found(kind)),
  };
}
