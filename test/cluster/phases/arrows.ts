import { setTimeout as sleep } from "node:timers/promises";
import { podOf, RELEASE } from "../support/release.ts";
import type { Tools } from "../support/tools.ts";
import { type Arrow, differencesOf, PORTS, SOURCES, STRANGERS } from "./arrow_table.ts";

/** A second namespace. The pods in it are not part of the release. */
const ELSEWHERE = "deputize-elsewhere";
const TRIES = 20;

/** Program that tries all connections concurrently and prints the names of the open ones. */
const PROBE = `
const net = require("node:net");
const tries = Object.entries(JSON.parse(process.argv[1])).map(([name, [host, port]]) => new Promise((resolve) => {
  const socket = net.connect({ host, port });
  const end = (open) => { socket.destroy(); resolve(open ? [name] : []); };
  socket.setTimeout(2000, () => end(false)).once("connect", () => end(true)).once("error", () => end(false));
}));
Promise.all(tries).then((open) => console.log(JSON.stringify(open.flat())));`;

/** Tries every connection from a pod that has the labels of its source. */
export async function tryArrows(
  tools: Tools,
  { image, machine }: { image: string; machine: { host: string; port: number } },
): Promise<{ arrows: Arrow[]; differences: string[] }> {
  await tools.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: ELSEWHERE } });
  await tools.apply(...SOURCES.map((source) => probePod(tools, source, image)));
  try {
    for (const source of SOURCES) {
      const [running, pod] = ["--for=jsonpath={.status.phase}=Running", `pod/${nameOf(source)}`];
      await tools.kubectl("-n", placeOf(tools, source), "wait", running, pod, "--timeout=60s");
    }
    const targets = await targetsOf(tools, machine);
    let found = await tryAll(tools, targets);
    for (let n = 0; n < TRIES && differencesOf(found).length > 0; n += 1) {
      await sleep(1_000);
      found = await tryAll(tools, targets);
    }
    return { arrows: found, differences: differencesOf(found) };
  } finally {
    for (const source of SOURCES) {
      await tools.kubectl(
        "-n",
        placeOf(tools, source),
        "delete",
        "pod",
        nameOf(source),
        "--grace-period=0",
        "--force",
      );
    }
    await tools.kubectl("delete", "namespace", ELSEWHERE);
  }
}

type Targets = Record<string, [host: string, port: number]>;

async function targetsOf(tools: Tools, machine: { host: string; port: number }): Promise<Targets> {
  const targets: Targets = { machine: [machine.host, machine.port] };
  for (const [component, port] of PORTS) {
    const { status } = await podOf(tools, component);
    targets[`${component}:${port}`] = [status.podIP ?? "", port];
  }
  const address = async (namespace: string, name: string) =>
    (await tools.read<{ spec: { clusterIP: string } }>("-n", namespace, "get", "service", name)).spec
      .clusterIP;
  targets.apiserver = [await address("default", "kubernetes"), 443];
  targets.dns = [await address("kube-system", "kube-dns"), 53];
  return targets;
}

async function tryAll(tools: Tools, targets: Targets): Promise<Arrow[]> {
  const of = async (from: string): Promise<Arrow[]> => {
    const probe = ["node", "--eval", PROBE, JSON.stringify(targets)];
    const said = await tools.kubectl("-n", placeOf(tools, from), "exec", nameOf(from), "--", ...probe);
    const open: string[] = JSON.parse(said);
    return Object.keys(targets).map((to) => ({ from, to, open: open.includes(to) }));
  };
  return (await Promise.all(SOURCES.map(of))).flat();
}

const placeOf = ({ namespace }: Tools, source: string) => (source === "elsewhere" ? ELSEWHERE : namespace);
const nameOf = (source: string) => `probe-${source}`;
const isStranger = (source: string) => (STRANGERS as readonly string[]).includes(source);

/** Returns a pod with the component's labels. It is never ready, so no Service sends it traffic. */
function probePod(tools: Tools, source: string, image: string): object {
  const labels = {
    "app.kubernetes.io/name": "deputize",
    "app.kubernetes.io/instance": RELEASE,
    "app.kubernetes.io/component": source,
  };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: nameOf(source),
      namespace: placeOf(tools, source),
      labels: isStranger(source) ? { probe: source } : labels,
    },
    spec: {
      readinessGates: [{ conditionType: "deputize.io/never" }],
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 0,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: 10001,
        seccompProfile: { type: "RuntimeDefault" },
      },
      containers: [
        {
          name: "probe",
          image,
          imagePullPolicy: "Never",
          command: ["node", "--eval", "setInterval(() => {}, 1000)"],
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
        },
      ],
    },
  };
}
