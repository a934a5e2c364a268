import { readFile } from "node:fs/promises";
import { isIPv6 } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Kubectl, KubernetesObject } from "../../../plugin/kubectl.ts";
import { Surprise } from "../calls.ts";
import { createInbox, type Receiver } from "../receiver.ts";
import { DELIVERIES_PATH, type KeptDelivery, WEBHOOK_PATH } from "../webhook_server.ts";
import { type Manifest, TOUR_LABELS } from "./objects.ts";
import type { Release } from "./release.ts";

/** Name of the pod that receives webhooks, and of its other objects. */
export const RECEIVER = "deputize-tour-receiver";
/** The tour reads deliveries from this port of the pod's loopback, which only port forwarding reaches. */
export const READ_PORT = 8081;
const PORT = 8080;
const USER = 10_001;
/** Node treats a file with the extension `.mts` as a TypeScript module. */
const [PROGRAM_FOLDER, PROGRAM_FILE] = ["/receiver", "webhook_server.mts"];
const POLL_MS = 200;
const CALL_TIMEOUT_MS = 10_000;

/**
 * Returns the URL to which the cluster's worker delivers webhooks. It contains the Service's IP address,
 * since the worker resolves only full domain names, and their suffix differs between clusters.
 */
export async function receiverUrl(kubectl: Kubectl): Promise<string> {
  type Service = KubernetesObject & { spec: { clusterIP: string } };
  const { spec } = await kubectl.json<Service>(["get", "services", RECEIVER]);
  const host = isIPv6(spec.clusterIP) ? `[${spec.clusterIP}]` : spec.clusterIP;
  return `http://${host}:${PORT}${WEBHOOK_PATH}`;
}

/**
 * Returns the objects of a pod that runs the receiver with Node from the release's image. Only the release's
 * worker can reach the pod.
 */
export async function receiverManifests(release: Release, namespace: string): Promise<Manifest[]> {
  const program = await readFile(new URL("../webhook_server.ts", import.meta.url), "utf8");
  const own = { "app.kubernetes.io/name": RECEIVER };
  const metadata = { name: RECEIVER, namespace, labels: { ...TOUR_LABELS, ...own } };
  const worker = {
    namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": release.namespace } },
    podSelector: {
      matchLabels: {
        "app.kubernetes.io/instance": release.name,
        "app.kubernetes.io/component": "worker",
      },
    },
  };
  return [
    {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata,
      spec: {
        podSelector: { matchLabels: own },
        policyTypes: ["Ingress", "Egress"],
        ingress: [{ from: [worker], ports: [{ port: PORT, protocol: "TCP" }] }],
      },
    },
    {
      apiVersion: "v1",
      kind: "Service",
      metadata,
      spec: { selector: own, ports: [{ name: "http", port: PORT, targetPort: "http" }] },
    },
    { apiVersion: "v1", kind: "ConfigMap", metadata, data: { [PROGRAM_FILE]: program } },
    { apiVersion: "v1", kind: "Pod", metadata, spec: podSpec(release) },
  ];
}

function podSpec({ image: { name: image, pullPolicy } }: Release): object {
  return {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 5,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: USER,
      runAsGroup: USER,
      seccompProfile: { type: "RuntimeDefault" },
    },
    volumes: [{ name: "program", configMap: { name: RECEIVER } }],
    containers: [
      {
        name: "receiver",
        image,
        ...(pullPolicy !== undefined && { imagePullPolicy: pullPolicy }),
        command: ["node", `${PROGRAM_FOLDER}/${PROGRAM_FILE}`, String(PORT), String(READ_PORT)],
        volumeMounts: [{ name: "program", mountPath: PROGRAM_FOLDER, readOnly: true }],
        ports: [{ name: "http", containerPort: PORT }],
        readinessProbe: { httpGet: { path: "/readyz", port: "http" }, periodSeconds: 1 },
        resources: { requests: { cpu: "10m", memory: "48Mi" }, limits: { memory: "192Mi" } },
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        },
      },
    ],
  };
}

type Pod = KubernetesObject & {
  status?: {
    phase?: string;
    conditions?: { type: string; status: string; message?: string }[];
    containerStatuses?: { state?: { waiting?: { reason?: string; message?: string } } }[];
  };
};

/** Waits until the pod is ready. Throws `Surprise` with the reason if that takes too long. */
export async function receiverReady(
  kubectl: Kubectl,
  timeoutMs: number,
  interrupted: AbortSignal,
): Promise<void> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const pod = await kubectl.find<Pod>("pods", RECEIVER);
    const isReady = pod?.status?.conditions?.some(
      ({ type, status }) => type === "Ready" && status === "True",
    );
    if (isReady) return;
    if (performance.now() > end) throw new Surprise(`pod ${RECEIVER} is not ready: ${hindrance(pod)}`);
    await sleep(POLL_MS, undefined, { signal: interrupted });
  }
}

function hindrance(pod: Pod | undefined): string {
  const { phase = "it is gone", conditions = [], containerStatuses = [] } = pod?.status ?? {};
  const waiting = containerStatuses.flatMap(({ state }) => state?.waiting ?? []);
  const [{ reason, message } = {}] = waiting;
  const conditionMessage =
    message ?? conditions.find((condition) => condition.status === "False" && condition.message)?.message;
  return [phase, reason, conditionMessage].filter((part) => part !== undefined).join(", ");
}

/** Returns a receiver that polls the pod for deliveries and checks each one, until it is closed. */
export function readReceiver(
  { url, deliveriesUrl }: { url: string; deliveriesUrl: string },
  interrupted: AbortSignal,
): Receiver {
  const inbox = createInbox({ interrupted });
  const over = new AbortController();

  async function readOn(from: number): Promise<number> {
    const address = new URL(`${DELIVERIES_PATH}?from=${from}`, deliveriesUrl);
    const signal = AbortSignal.any([over.signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]);
    const response = await fetch(address, { signal });
    const { deliveries } = (await response.json()) as { deliveries: KeptDelivery[] };
    let taken = from;
    for (const { headers, body, received_at } of deliveries) {
      const status = await inbox.take({ headers, rawBody: Buffer.from(body, "base64") }, received_at);
      if (status >= 500) break;
      taken += 1;
    }
    return taken;
  }

  async function read(): Promise<void> {
    let taken = 0;
    while (!over.signal.aborted) {
      // Port forwarding fails when, for example, the pod restarts. The next round uses the restarted forward.
      taken = await readOn(taken).catch(() => taken);
      await sleep(POLL_MS, undefined, { signal: over.signal }).catch(() => undefined);
    }
  }
  const reading = read();

  return {
    ...inbox,
    url,
    async close() {
      over.abort();
      await reading;
    },
  };
}
