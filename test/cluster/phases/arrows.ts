import { setTimeout as sleep } from "node:timers/promises";
import { NAMESPACE, podOf, RELEASE } from "../support/release.ts";
import type { Tools } from "../support/tools.ts";

/** From whom, to whom, and whether the way is open. */
export type Arrow = { from: string; to: string; open: boolean };

/** Another namespace, whose pods are strangers too. */
const ELSEWHERE = "deputize-elsewhere";
const STRANGERS = ["stranger", "elsewhere"] as const;
/** Whoever has a part's labels is that part to a policy. */
const SOURCES = ["api", "operator", "worker", "keyvault", "postgres", "console", ...STRANGERS] as const;
type Source = (typeof SOURCES)[number];

/** Where each may go; nowhere else. In a trial any pod may call the API, and webhooks may lead anywhere. */
const ALLOWED: Record<Source, readonly string[]> = {
  api: ["postgres:5432", "keyvault:8443", "apiserver", "dns"],
  operator: ["api:8081", "apiserver", "dns"],
  worker: ["postgres:5432", "api:8080", "apiserver", "dns", "machine"],
  keyvault: ["postgres:5432", "dns"],
  postgres: [],
  // A label that no part has gets what a part without arrows gets.
  console: [],
  stranger: ["api:8080", "apiserver", "dns", "machine"],
  elsewhere: ["api:8080", "apiserver", "dns", "machine"],
};

const PARTS: readonly [component: string, port: number][] = [
  ["api", 8080],
  ["api", 8081],
  ["api", 9090],
  ["operator", 9090],
  ["worker", 9090],
  ["keyvault", 8443],
  ["keyvault", 9090],
  ["postgres", 5432],
];
const TRIES = 20;

/** Tries connections, all at the same time, and prints the names of those that were open. */
const PROBE = `
const net = require("node:net");
const tries = Object.entries(JSON.parse(process.argv[1])).map(([name, [host, port]]) => new Promise((resolve) => {
  const socket = net.connect({ host, port });
  const end = (open) => { socket.destroy(); resolve(open ? [name] : []); };
  socket.setTimeout(2000, () => end(false)).once("connect", () => end(true)).once("error", () => end(false));
}));
Promise.all(tries).then((open) => console.log(JSON.stringify(open.flat())));`;

/** Tries every arrow from a pod that has the labels of the part it stands for. */
export async function tryArrows(
  tools: Tools,
  { image, machine }: { image: string; machine: { host: string; port: number } },
): Promise<{ arrows: Arrow[]; differences: string[] }> {
  await tools.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: ELSEWHERE } });
  await tools.apply(...SOURCES.map((source) => probePod(source, image)));
  try {
    for (const source of SOURCES) {
      const [running, pod] = ["--for=jsonpath={.status.phase}=Running", `pod/${nameOf(source)}`];
      await tools.kubectl("-n", placeOf(source), "wait", running, pod, "--timeout=60s");
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
        placeOf(source),
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

function differencesOf(arrows: readonly Arrow[]): string[] {
  return arrows
    .filter(({ from, to, open }) => ALLOWED[from as Source].includes(to) !== open)
    .map(({ from, to, open }) => `${from} → ${to} is ${open ? "open" : "closed"}`);
}

type Targets = Record<string, [host: string, port: number]>;

async function targetsOf(tools: Tools, machine: { host: string; port: number }): Promise<Targets> {
  const targets: Targets = { machine: [machine.host, machine.port] };
  for (const [component, port] of PARTS) {
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
  const of = async (from: Source): Promise<Arrow[]> => {
    const probe = ["node", "--eval", PROBE, JSON.stringify(targets)];
    const said = await tools.kubectl("-n", placeOf(from), "exec", nameOf(from), "--", ...probe);
    const open: string[] = JSON.parse(said);
    return Object.keys(targets).map((to) => ({ from, to, open: open.includes(to) }));
  };
  return (await Promise.all(SOURCES.map(of))).flat();
}

const placeOf = (source: Source) => (source === "elsewhere" ? ELSEWHERE : NAMESPACE);
const nameOf = (source: Source) => `probe-${source}`;
const isStranger = (source: Source) => (STRANGERS as readonly string[]).includes(source);

/** Never ready, so that no Service sends it what is meant for the part whose labels it has. */
function probePod(source: Source, image: string): object {
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
      namespace: placeOf(source),
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

/** The table in lines, for people: a row for each source, a mark for each target. */
export function arrowLines(arrows: readonly Arrow[]): string[] {
  const targets = [...new Set(arrows.map(({ to }) => to))];
  const width = Math.max(...SOURCES.map(({ length }) => length)) + 1;
  const rows = SOURCES.map((source) => {
    const marks = targets.map((target) => {
      const { open = false } = arrows.find(({ from, to }) => from === source && to === target) ?? {};
      return (open ? "open" : "-").padStart(target.length);
    });
    return `${source.padEnd(width)} ${marks.join("  ")}`;
  });
  return [`${"".padEnd(width)} ${targets.join("  ")}`, ...rows];
}
