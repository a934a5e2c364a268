import { type Kubectl, KubectlFailure, type KubernetesObject } from "../../../plugin/kubectl.ts";
import { UserError } from "../../user_error.ts";
import type { ClusterTourSettings } from "./options.ts";

/** Facts about an installed release that the tour needs. */
export type Release = {
  name: string;
  namespace: string;
  version: string;
  /** Name of the API's Service, which has a port named `http`. */
  apiService: string;
  image: { name: string; pullPolicy: string | undefined };
  /** True for a trial, which allows plain http for callbacks, and shows emails on a page. */
  isDevelopment: boolean;
  /** Namespace of the ConfigMaps that bind namespaces to accounts. */
  operatorNamespace: string;
  clusterId: string;
  /** Namespaces that the operator watches. `undefined` means all. */
  watched: string[] | undefined;
  /** The label selector of the namespaces in which the operator works. If absent, it works in all. */
  selector: string | undefined;
};

type Container = { image: string; imagePullPolicy?: string; env?: { name: string; value?: string }[] };
type Part = KubernetesObject & {
  spec: {
    replicas?: number;
    template?: { spec: { containers: Container[] } };
    ports?: { name?: string }[];
  };
  status?: { readyReplicas?: number };
};

const GROUP = "/apis/deputize.io/v1alpha1";
const KINDS = ["platforms", "agents", "delegations"];
const COMPONENT = "app.kubernetes.io/component";
const VERSION = "app.kubernetes.io/version";
const WORD = "service";

/**
 * Finds a release that is ready in a cluster with Deputize's custom resource definitions. Throws `UserError`
 * with what is missing, and `KubectlFailure` if kubectl fails.
 */
export async function findRelease(
  kubectl: Kubectl,
  { release: name, releaseNamespace: namespace }: ClusterTourSettings,
): Promise<Release> {
  const selector = `app.kubernetes.io/instance=${name},app.kubernetes.io/part-of=deputize`;
  const parts = await kubectl.list<Part>([
    "deployments,statefulsets,services",
    `--namespace=${namespace}`,
    `--selector=${selector}`,
  ]);
  const api = parts.find((part) => part.kind === "Deployment" && componentOf(part) === "api");
  const service = parts.find(
    (part) =>
      part.kind === "Service" &&
      componentOf(part) === "api" &&
      part.spec.ports?.some((port) => port.name === "http"),
  );
  const [container] = api?.spec.template?.spec.containers ?? [];
  if (api === undefined || container === undefined || service === undefined) {
    throw new UserError(
      `There is no release ${name} in namespace ${namespace}`,
      "Install it, or name it with --release and --release-namespace",
    );
  }
  await requireDefinitions(kubectl);
  requireReady(name, namespace, parts);
  const operator = parts.find((part) => part.kind === "Deployment" && componentOf(part) === "operator");
  if (operator === undefined) {
    throw new UserError(
      `Release ${name} has no operator in this cluster`,
      "Install it with operator.enabled",
    );
  }
  const word = settingOf(api, "SERVICE_WORD") ?? WORD;
  if (word !== WORD) {
    throw new UserError(
      `The API of release ${name} uses the path word "${word}", but the tour needs "${WORD}"`,
    );
  }
  const watched = settingOf(operator, "WATCH_NAMESPACES")?.split(",");
  return {
    name,
    namespace,
    version: api.metadata.labels?.[VERSION] ?? "unknown",
    apiService: service.metadata.name,
    image: { name: container.image, pullPolicy: container.imagePullPolicy },
    isDevelopment: settingOf(api, "DEVELOPMENT") === "true",
    operatorNamespace: settingOf(operator, "OPERATOR_NAMESPACE") ?? namespace,
    clusterId: settingOf(operator, "CLUSTER_ID") ?? (await uidOfCluster(kubectl)),
    selector: settingOf(operator, "NAMESPACE_SELECTOR"),
    watched: watched?.map((each) => each.trim()).filter((each) => each !== ""),
  };
}

async function requireDefinitions(kubectl: Kubectl): Promise<void> {
  const known = await kubectl.run(["get", "--raw", GROUP]).catch((error: unknown) => {
    if (error instanceof KubectlFailure && error.isMissing) return '{"resources":[]}';
    throw error;
  });
  const { resources } = JSON.parse(known) as { resources: { name: string }[] };
  const missing = KINDS.filter((kind) => !resources.some((resource) => resource.name === kind));
  if (missing.length === 0) return;
  throw new UserError(
    `The cluster has no definition of ${missing.map((kind) => `${kind}.deputize.io`).join(", ")}`,
    "Apply them: kubectl apply --server-side -f crds/",
  );
}

function requireReady(name: string, namespace: string, parts: Part[]): void {
  const waiting = parts.filter(
    ({ spec, status }) =>
      spec.template !== undefined && spec.replicas !== 0 && (status?.readyReplicas ?? 0) === 0,
  );
  if (waiting.length === 0) return;
  const names = waiting.map((part) => part.metadata.name).join(", ");
  throw new UserError(
    `Release ${name} is not ready: ${names} has no ready pod`,
    `See why: kubectl get pods --namespace ${namespace}`,
  );
}

async function uidOfCluster(kubectl: Kubectl): Promise<string> {
  const { metadata } = await kubectl.json<KubernetesObject>(["get", "namespace", "kube-system"]);
  return metadata.uid ?? "";
}

function componentOf({ metadata }: Part): string | undefined {
  return metadata.labels?.[COMPONENT];
}

/** Returns a setting from the pod template, in which the chart sets every setting as a plain value. */
function settingOf({ spec }: Part, name: string): string | undefined {
  const [container] = spec.template?.spec.containers ?? [];
  const value = container?.env?.find((setting) => setting.name === name)?.value;
  return value === "" ? undefined : value;
}
