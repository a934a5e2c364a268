import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { kubernetesBinary } from "../support/kubernetes/binary.ts";
import { kubeconfigText } from "../support/kubernetes/kubeconfig.ts";
import { type Kubernetes, type KubernetesAnswer, startKubernetes } from "../support/kubernetes/server.ts";
import { until } from "../support/process.ts";
import { type Definitions, definitionsOf, missingDefinitions, OTHERS } from "./definitions.ts";
import { NAMESPACE, type Rendered } from "./render.ts";

export const WATCHED = ["shop", "desk"];
const RESTRICTED = {
  "pod-security.kubernetes.io/enforce": "restricted",
  "pod-security.kubernetes.io/enforce-version": "latest",
};
const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/** An API server with all definitions, and a namespace that enforces restricted Pod Security. */
export type ChartCluster = Kubernetes & {
  /** Path of a kubeconfig with administrator rights. */
  kubeconfig: string;
  /** Creates an object in a dry run. */
  admits(object: Rendered): Promise<KubernetesAnswer>;
  /** Creates or removes an object. Both throw if the API server refuses. */
  create(object: Rendered): Promise<void>;
  remove(object: Rendered): Promise<void>;
};

/** Returns the name of a missing program or definition; `undefined` if nothing is missing. */
export async function missingCluster(more: readonly Definitions[] = []): Promise<string | undefined> {
  return (await kubernetesBinary()).missing ?? missingDefinitions([...OTHERS, ...more]);
}

export async function startChartCluster(more: readonly Definitions[] = []): Promise<ChartCluster> {
  const { path = "" } = await kubernetesBinary();
  const kubernetes = await startKubernetes(path);
  const folder = await mkdtemp(join(tmpdir(), "deputize-chart-"));
  const stop = async () => {
    await kubernetes.stop();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const definitions = await definitionsOf([...OTHERS, ...more]);
    for (const definition of definitions) await applyAsHelm(kubernetes, definition);
    for (const name of [NAMESPACE, ...WATCHED]) {
      await must(kubernetes, "/api/v1/namespaces", { metadata: { name, labels: RESTRICTED } });
    }
    const kubeconfig = join(folder, "config");
    await writeFile(kubeconfig, kubeconfigText(kubernetes, { token: kubernetes.adminToken }), {
      mode: 0o600,
    });
    const paths = await resourcePaths(kubernetes, definitions);
    return {
      ...kubernetes,
      stop,
      kubeconfig,
      admits: (object) =>
        kubernetes.call("POST", `${paths(object)}?dryRun=All&fieldValidation=Strict`, object),
      create: (object) => must(kubernetes, paths(object), object),
      async remove(object) {
        const path = `${paths(object)}/${object.metadata.name}`;
        const { status } = await kubernetes.call("DELETE", path);
        if (status >= 300) throw new Error(`${path}: ${status}`);
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * Applies a definition in the name of Helm, so that Helm can install it again. Kubernetes 1.30 drops a field
 * of our definitions, so that only their manager can apply them again without a conflict.
 */
async function applyAsHelm(kubernetes: Kubernetes, definition: Rendered): Promise<void> {
  const path = `${DEFINITIONS}/${definition.metadata.name}?fieldManager=helm&fieldValidation=Strict`;
  const answer = await kubernetes.call("PATCH", path, definition, "application/apply-patch+yaml");
  if (answer.status >= 300) throw new Error(`${path}: ${answer.status} ${String(answer.body.message)}`);
}

async function must(kubernetes: Kubernetes, path: string, body: unknown): Promise<void> {
  const answer = await kubernetes.call("POST", `${path}?fieldValidation=Strict`, body);
  if (answer.status >= 300) throw new Error(`${path}: ${answer.status} ${String(answer.body.message)}`);
}

type ResourceList = { resources: { name: string; kind: string; namespaced: boolean }[] };

async function resourcePaths(
  kubernetes: Kubernetes,
  definitions: readonly Rendered[],
): Promise<(object: Rendered) => string> {
  const paths = new Map<string, { folder: string; name: string; namespaced: boolean }>();
  const learn = async () => {
    const { body } = await kubernetes.call("GET", "/apis");
    const groups = body.groups as { versions: { groupVersion: string }[] }[];
    const versions = groups.flatMap(({ versions }) => versions.map(({ groupVersion }) => groupVersion));
    for (const version of ["v1", ...versions]) {
      const folder = version === "v1" ? "/api/v1" : `/apis/${version}`;
      const { resources } = (await kubernetes.call("GET", folder)).body as ResourceList;
      for (const { name, kind, namespaced } of resources ?? []) {
        if (!name.includes("/")) paths.set(`${version} ${kind}`, { folder, name, namespaced });
      }
    }
  };
  const needed = definitions.map(({ spec }) => {
    const version = spec.versions.find(({ storage }: { storage: boolean }) => storage).name;
    return `${spec.group}/${version} ${spec.names.kind}`;
  });
  await until("all kinds are served", async () => {
    // A new API group is listed shortly before it is served. Until then, the answer is not JSON.
    await learn().catch((error: unknown) => {
      if (!(error instanceof SyntaxError)) throw error;
    });
    return needed.every((kind) => paths.has(kind));
  });
  return ({ apiVersion, kind, metadata }) => {
    const found = paths.get(`${apiVersion} ${kind}`);
    if (found === undefined) throw new Error(`The API server has no kind ${apiVersion} ${kind}`);
    const { folder, name, namespaced } = found;
    return namespaced
      ? `${folder}/namespaces/${metadata.namespace ?? NAMESPACE}/${name}`
      : `${folder}/${name}`;
  };
}
