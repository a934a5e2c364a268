import { describe, expect, test } from "vitest";
import { helm } from "../support/helm.ts";
import { type End, isPeer, matches, type Peer } from "./peers.ts";
import { EXAMPLE } from "./production/files.ts";
import { NAMESPACE, podsOf, type Rendered, render } from "./render.ts";
import { mergeValues, PRODUCTION, VALUES, type Values } from "./values.ts";

const program = await helm("v4");
if (program.missing !== undefined) console.error(`SKIPPED, missing: ${program.missing}`);

const COMPONENT = "app.kubernetes.io/component";

type Rule = { from?: Peer[]; to?: Peer[]; ports?: { port: number; protocol: string }[] };

const PORTS = [5432, 8080, 8081, 8443, 9090];

/** Allowed connections between the components of a release. All others must be refused. */
const PRODUCTION_ARROWS = [
  "api -> keyvault 8443",
  "doctor-api -> keyvault 8443",
  "doctor-operator -> api 8081",
  "operator -> api 8081",
  "test -> api 8080",
  "test -> api 9090",
];
const TRIAL_ARROWS = [
  ...PRODUCTION_ARROWS,
  ...["api", "doctor-api", "doctor-worker", "keyvault", "migrate", "worker"].map(
    (component) => `${component} -> postgres 5432`,
  ),
];
const inNamespace = (name: string): Peer => ({
  namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": name } },
});

const CASES: [string, Values, string[]][] = [
  ["production", PRODUCTION, PRODUCTION_ARROWS],
  ["the production example", EXAMPLE, [...PRODUCTION_ARROWS, "keyvault-backup -> keyvault 8443"]],
  ["everything", VALUES.everything ?? {}, [...PRODUCTION_ARROWS, "keyvault-backup -> keyvault 8443"]],
  [
    "a release without operator",
    VALUES["without operator"] ?? {},
    PRODUCTION_ARROWS.filter((arrow) => !/^(doctor-)?operator/.test(arrow)),
  ],
  ["a trial", VALUES.trial ?? {}, TRIAL_ARROWS],
];

/** The outside addresses that each component may reach: only those in the values. */
const OUTSIDE: [string, Values, Record<string, string[]>][] = [
  [
    "production",
    PRODUCTION,
    {
      api: ["10.0.0.1 443", "10.0.0.1 6443", "10.20.0.9 5432", "10.30.0.25 465"],
      operator: ["10.0.0.1 443", "10.0.0.1 6443"],
      worker: ["10.20.0.9 5432", "93.184.216.34 443"],
      "doctor-api": ["10.0.0.1 443", "10.0.0.1 6443", "10.20.0.9 5432", "10.30.0.25 465"],
      "doctor-operator": ["10.0.0.1 443", "10.0.0.1 6443"],
      "doctor-worker": ["10.20.0.9 5432", "93.184.216.34 443"],
      migrate: ["10.20.0.9 5432"],
      keyvault: ["10.20.1.9 5432"],
      "keyvault-certificates": ["10.0.0.1 443", "10.0.0.1 6443"],
      "keyvault-renewal": ["10.0.0.1 443", "10.0.0.1 6443"],
      test: [],
    },
  ],
  [
    "production with a private network for callbacks",
    mergeValues(PRODUCTION, { api: { webhookAllowedCidrs: ["10.60.0.0/16"] } }),
    { worker: ["10.20.0.9 5432", "10.60.1.1 443", "93.184.216.34 443"] },
  ],
  [
    "production with a pooler in front of the database",
    VALUES["a pooler in front of the database"] ?? {},
    {
      worker: ["10.20.0.9 5432", "10.20.2.9 5433", "93.184.216.34 443"],
      migrate: ["10.20.0.9 5432", "10.20.2.9 5433"],
    },
  ],
  [
    "production with named receivers",
    mergeValues(PRODUCTION, {
      network: { peers: { callbacks: { to: [{ ipBlock: { cidr: "10.60.0.0/16" } }], ports: [8443] } } },
    }),
    { worker: ["10.20.0.9 5432", "10.60.1.1 8443"] },
  ],
];
/** The DNS servers, for the usual cluster and for other configurations. */
const NAMES: [string, Values, End, number][] = [
  ["kube-dns", PRODUCTION, { labels: { "k8s-app": "kube-dns" }, namespace: "kube-system" }, 53],
  [
    "what the values name",
    mergeValues(PRODUCTION, {
      network: { peers: { dns: { to: [inNamespace("openshift-dns")], ports: [5353] } } },
    }),
    { labels: {}, namespace: "openshift-dns" },
    5353,
  ],
];
const ADDRESSES = [
  ...["10.0.0.1", "10.20.2.9", "10.20.0.9", "10.20.1.9", "10.30.0.25", "10.60.1.1"],
  ...["93.184.216.34", "169.254.169.254", "127.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1"],
];
const OUTSIDE_PORTS = [25, 80, 443, 465, 5432, 5433, 6443, 8443, 9093];

/** The outside peers that may connect, and the components and ports that each peer reaches. */
const INSIDE: [string, Values, End, string[]][] = [
  ["any pod", PRODUCTION, { labels: {}, namespace: "shop" }, ["api 8080"]],
  [
    "a pod that is not among the callers",
    mergeValues(PRODUCTION, { network: { peers: { callers: [inNamespace("shop")] } } }),
    { labels: {}, namespace: "other" },
    [],
  ],
  [
    "Prometheus",
    mergeValues(PRODUCTION, {
      network: { peers: { callers: [inNamespace("shop")], prometheus: [inNamespace("monitoring")] } },
    }),
    { labels: {}, namespace: "monitoring" },
    ["api 9090", "keyvault 9090", "operator 9090", "worker 9090"],
  ],
  [
    "an operator of another cluster",
    mergeValues(VALUES["other clusters"] ?? {}, { network: { peers: { callers: [inNamespace("shop")] } } }),
    { address: "10.50.1.1" },
    ["api 8081"],
  ],
  ["an address, in a trial", VALUES.trial ?? {}, { address: "10.89.0.1" }, ["api 8080"]],
  [
    "somebody with our labels in another namespace",
    mergeValues(PRODUCTION, { network: { peers: { callers: [inNamespace("shop")] } } }),
    {
      labels: {
        "app.kubernetes.io/name": "deputize",
        "app.kubernetes.io/instance": "deputize",
        "app.kubernetes.io/component": "operator",
      },
      namespace: "other",
    },
    [],
  ],
];

describe.skipIf(program.missing !== undefined)("the chart's network policies", () => {
  const world = async (values: Values) => {
    const install = await render(program.path ?? "", values);
    const upgrade = await render(program.path ?? "", values, { isUpgrade: true });
    const objects = [...install, ...upgrade];
    const policies = objects.filter(({ kind }) => kind === "NetworkPolicy");
    const labels = podsOf(objects).map(({ template }) => template.metadata.labels ?? {});
    const components = new Map(labels.map((each) => [each[COMPONENT] ?? "", each]));
    const ends = [...components].map(
      ([name, each]) => [name, { labels: each, namespace: NAMESPACE }] as const,
    );
    return { policies, ends };
  };

  test.each(CASES)(
    "allow exactly the expected connections between the components of %s",
    async (_, values, wanted) => {
      const { policies, ends } = await world(values);
      const found = ends.flatMap(([from, source]) =>
        ends.flatMap(([to, target]) =>
          PORTS.filter((port) => sends(policies, source, target, port))
            .filter((port) => takes(policies, source, target, port))
            .map((port) => `${from} -> ${to} ${port}`),
        ),
      );
      expect(found.sort()).toEqual(wanted.toSorted());
    },
  );

  test.each(OUTSIDE)(
    "allow exactly the expected outside addresses to the components of %s",
    async (_, values, wanted) => {
      const { policies, ends } = await world(values);
      for (const [component, reached] of Object.entries(wanted)) {
        const [, source] = ends.find(([name]) => name === component) ?? [];
        const found = ADDRESSES.flatMap((address) =>
          OUTSIDE_PORTS.filter(
            (port) => source !== undefined && sends(policies, source, { address }, port),
          ).map((port) => `${address} ${port}`),
        );
        expect(found.sort(), component).toEqual(reached.toSorted());
      }
    },
  );

  test.each(NAMES)(
    "allow DNS requests to %s, and to no other DNS server",
    async (_, values, server, port) => {
      const { policies, ends } = await world(values);
      expect(ends.length).toBeGreaterThan(5);
      const others: End[] = NAMES.map(([, , end]) => end).filter((end) => end !== server);
      for (const [component, source] of ends) {
        for (const each of [53, 5353]) {
          expect(sends(policies, source, server, each), `${component} ${each}`).toBe(each === port);
          for (const other of others) expect(sends(policies, source, other, each), component).toBe(false);
        }
      }
    },
  );

  test.each(INSIDE)("allow %s to reach only the permitted ports", async (_, values, source, wanted) => {
    const { policies, ends } = await world(values);
    const found = ends.flatMap(([component, target]) =>
      PORTS.filter((port) => takes(policies, source, target, port)).map((port) => `${component} ${port}`),
    );
    expect([...new Set(found)].sort()).toEqual(wanted.toSorted());
  });
});

function sends(policies: readonly Rendered[], from: End, to: End, port: number): boolean {
  return passes(policies, { of: from, other: to, port, direction: "egress" });
}
function takes(policies: readonly Rendered[], from: End, to: End, port: number): boolean {
  return passes(policies, { of: to, other: from, port, direction: "ingress" });
}

type Question = { of: End; other: End; port: number; direction: "ingress" | "egress" };

/** Applies Kubernetes' rule: a pod that policies select has only the connections that some policy allows. */
function passes(policies: readonly Rendered[], { of, other, port, direction }: Question): boolean {
  if ("address" in of) return true;
  const own = policies.filter(
    ({ spec, metadata }) => metadata.namespace === of.namespace && matches(spec.podSelector, of.labels),
  );
  if (own.length === 0) return true;
  return own.some(({ spec }) =>
    ((spec[direction] ?? []) as Rule[]).some(
      ({ from, to, ports }) =>
        (ports === undefined || ports.some((each) => each.port === port && each.protocol === "TCP")) &&
        ((direction === "ingress" ? from : to) ?? []).some((peer) => isPeer(peer, other, of.namespace)),
    ),
  );
}
