import { join } from "node:path";
import { until } from "../../support/process.ts";
import type { Target } from "../load/load.ts";
import { ROOT } from "./cluster.ts";
import type { Tools } from "./tools.ts";

export type Pod = {
  metadata: { name: string; uid: string; labels: Record<string, string>; deletionTimestamp?: string };
  status: {
    phase: string;
    podIP?: string;
    conditions?: { type: string; status: string }[];
    containerStatuses?: { restartCount: number }[];
  };
};

export const RELEASE = "deputize";
export const NAMESPACE = "deputize-system";
/** Name of the ConfigMap with the public half of the recovery key. */
export const RECOVERY = `${RELEASE}-keyvault-recovery`;
export const CHART = join(ROOT, "charts/deputize");
/** Components that run permanently. */
export const COMPONENTS = ["api", "operator", "worker", "keyvault", "postgres"] as const;
export type Component = (typeof COMPONENTS)[number];

const READY_MS = 300_000;
/** Raises the limits that a load from one machine exceeds. A trial's limit on sign-in codes suffices. */
const LIMITS = {
  REFUSED_PROOFS_PER_MINUTE: "60000",
  CHANGES_PER_MINUTE: "60000",
  REQUESTS_PER_DAY: "60000",
};

/** Values of the trial under test, with images of the tag `tag`, and Postgres of `postgresTag`. */
export function valuesOf(tag: string, postgresTag = tag): object {
  const image = { tag, pullPolicy: "Never" };
  return {
    trial: { enabled: true, postgres: { image: { ...image, tag: postgresTag } } },
    image,
    keyvault: { image, backup: { enabled: true, recoveryKey: { existingConfigMap: { name: RECOVERY } } } },
    api: { replicas: 2, settings: LIMITS },
  };
}

/** Returns the pods of a component, or of all components, except pods that are being deleted. */
export async function podsOf(tools: Tools, component?: string): Promise<Pod[]> {
  const selector = [`app.kubernetes.io/instance=${RELEASE}`];
  if (component !== undefined) selector.push(`app.kubernetes.io/component=${component}`);
  const { items } = await tools.read<{ items: Pod[] }>(
    "-n",
    tools.namespace,
    "get",
    "pods",
    "-l",
    selector.join(),
  );
  return items.filter(({ metadata, status }) => !metadata.deletionTimestamp && status.phase !== "Succeeded");
}

/** Throws `Error` if the component has no pod. */
export async function podOf(tools: Tools, component: string): Promise<Pod> {
  const [pod] = await podsOf(tools, component);
  if (pod === undefined) throw new Error(`There is no pod of ${component}`);
  return pod;
}

export function isReady({ status }: Pod): boolean {
  return status.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
}

/** Waits until a component has exactly this number of pods and all of them are ready. */
export async function untilReady(tools: Tools, component: string, count: number): Promise<void> {
  const areReady = async () => {
    const pods = await podsOf(tools, component);
    return pods.length === count && pods.every(isReady);
  };
  await until(`${count} pods of ${component} are ready`, areReady, READY_MS);
}

/** Runs a command in a component's pod, and returns the output. `input` is the standard input. */
export function inPod(tools: Tools, component: Component, command: string[], input = ""): Promise<string> {
  const kind = component === "keyvault" || component === "postgres" ? "statefulset" : "deployment";
  const place = ["-n", tools.namespace, "exec", "-i", `${kind}/${RELEASE}-${component}`];
  return tools.kubectlWith(input, ...place, "--", ...command);
}

export async function secretOf(tools: Tools, name: string, key: string): Promise<string> {
  const { data } = await tools.read<{ data: Record<string, string> }>(
    "-n",
    tools.namespace,
    "get",
    "secret",
    name,
  );
  return Buffer.from(data[key] ?? "", "base64").toString();
}

/** Forwards a port to the trial's Postgres. Returns the database URL of a Secret with that port. */
export async function forwardDatabase(
  tools: Tools,
  secret: string,
  key: string,
): Promise<{ url: string; close(): Promise<void> }> {
  const url = new URL(await secretOf(tools, secret, key));
  const { port, close } = await tools.forward(tools.namespace, `service/${RELEASE}-postgres`, 5432);
  url.host = `127.0.0.1:${port}`;
  return { url: url.href, close };
}

/**
 * Connections to the release. Decisions go through the Service. Emails and database calls go through
 * forwarded ports.
 */
export type Reach = Target & { close(): Promise<void> };

/** Opens the connections to the release. `receiverHost` is the address at which pods reach this machine. */
export async function reach(tools: Tools, receiverHost: string): Promise<Reach> {
  // The mailbox is in the memory of one pod, so all emails must be requested from that pod.
  const { metadata } = await podOf(tools, "api");
  const mailbox = await tools.forward(tools.namespace, `pod/${metadata.name}`, 8080);
  const database = await forwardDatabase(tools, `${RELEASE}-trial-database`, "url");
  const service = await tools.read<{ spec: { clusterIP: string } }>(
    ...["-n", tools.namespace, "get", "service", `${RELEASE}-api`],
  );
  return {
    apiUrl: `http://${service.spec.clusterIP}:8080`,
    mailboxUrl: `http://127.0.0.1:${mailbox.port}`,
    databaseUrl: database.url,
    sealingKey: await secretOf(tools, `${RELEASE}-trial-sealing-key`, "sealingKey"),
    receiverHost,
    close: async () => {
      await Promise.all([mailbox.close(), database.close()]);
    },
  };
}
