import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { settingSchema as keyvaultSettings } from "../../../keyvault/config.ts";
import { settingSchemas } from "../../../src/config.ts";
import { topics, wantedTopics } from "../../../src/events/kafka/settings.ts";
import { type End, isPeer, type Labels, matches, type Peer, type PeerPod } from "../peers.ts";
import { NAMESPACE } from "../render.ts";
import { EXAMPLE, ofKind, theOnly } from "./files.ts";

type Example = {
  api: { baseUrl: string };
  kafka: {
    brokers: string[];
    prefix?: string;
    partitions: number;
    replication: number;
    tls: { enabled: boolean };
    sasl: { mechanism: string; username: string };
  };
  keyvault: { tls: { issuerRef: { kind: string; name: string } } };
  gateway: {
    parentRefs: { name: string; namespace: string; sectionName: string }[];
    hostnames: string[];
  };
  monitoring: { labels: Labels };
  operator: { watchNamespaces: string[] };
  network: {
    peers: Record<"callers" | "prometheus", Peer[]> &
      Record<"database" | "keyvaultDatabase", { to: Peer[]; port: number }> & {
        kafka: { to: Peer[]; ports: number[] };
      };
  };
};
const { api, kafka, keyvault, gateway, monitoring, operator, network } = EXAMPLE as unknown as Example;
const { peers } = network;

/** Returns a pod of a database cluster, with the labels that CloudNativePG sets. */
const database = (cluster: string): PeerPod => ({
  namespace: NAMESPACE,
  labels: {
    "cnpg.io/cluster": cluster,
    "cnpg.io/podRole": "instance",
    "cnpg.io/instanceName": `${cluster}-1`,
  },
});
const kafkaPod = (pool: string, roles: readonly string[]): PeerPod => ({
  namespace: NAMESPACE,
  labels: {
    "strimzi.io/cluster": theOnly("Kafka").metadata.name,
    "strimzi.io/kind": "Kafka",
    "strimzi.io/pool-name": pool,
    "strimzi.io/broker-role": String(roles.includes("broker")),
    "strimzi.io/controller-role": String(roles.includes("controller")),
  },
});
const own = (component: string): End => ({
  namespace: NAMESPACE,
  labels: {
    "app.kubernetes.io/name": "deputize",
    "app.kubernetes.io/instance": "deputize",
    "app.kubernetes.io/component": component,
  },
});
const OTHERS: End[] = [
  { namespace: "other", labels: {} },
  { namespace: NAMESPACE, labels: {} },
  { namespace: "other", labels: { "cnpg.io/cluster": "deputize-db", "strimzi.io/cluster": "events" } },
  { address: "10.99.0.1" },
];

const isLetIn = (list: readonly Peer[], end: End) => list.some((peer) => isPeer(peer, end, NAMESPACE));

describe("the databases in the production example", () => {
  const page = readFileSync(new URL("../../../docs/install.md", import.meta.url), "utf8");
  const documented = (process: string) =>
    Number(new RegExp(`^\\| ${process} \\| (\\d+)`, "m").exec(page)?.[1]);

  test("allow the connections that docs/install.md lists, also during a rollout", () => {
    expect(documented("API")).toBe(settingSchemas.api.shape.DATABASE_POOL_SIZE.def.defaultValue);
    expect(documented("worker")).toBe(settingSchemas.worker.shape.DATABASE_POOL_SIZE.def.defaultValue);
    const vaultSize = keyvaultSettings.shape.KEYVAULT_DATABASE_POOL_SIZE.def.defaultValue;
    expect(documented("key vault, on its own database")).toBe(vaultSize);
    const service = ofKind("Cluster").find(({ metadata }) => metadata.name === "deputize-db");
    const { autoscaling } = EXAMPLE.api as { autoscaling: { maxReplicas: number } };
    const workers = (EXAMPLE.worker as { replicas?: number } | undefined)?.replicas ?? 2;
    const needed = 25 * (autoscaling.maxReplicas + 1) + 17 * (workers + 1) + 4 + 20;
    expect(Number(service?.spec.postgresql.parameters.max_connections)).toBeGreaterThanOrEqual(needed);
    expect(page).toContain("25 × (N + 1) + 17 × (M + 1) + 4 + reserve");
  });
});

describe("Kafka in the production example", () => {
  const cluster = theOnly("Kafka");
  const user = theOnly("KafkaUser");
  const [listener] = cluster.spec.kafka.listeners;

  test("matches the Service, listener and user in the chart's values", () => {
    const { name, namespace } = cluster.metadata;
    expect(kafka.brokers).toEqual([`${name}-kafka-bootstrap.${namespace}.svc:${listener.port}`]);
    expect(listener.tls).toBe(kafka.tls.enabled);
    expect(listener.authentication.type.toUpperCase()).toBe(kafka.sasl.mechanism);
    expect(user.spec.authentication.type).toBe(listener.authentication.type);
    expect(user.metadata.name).toBe(kafka.sasl.username);
    expect(peers.kafka.ports).toEqual([listener.port]);
    expect(cluster.spec.kafka.authorization).toEqual({ type: "simple" });
  });

  test("accepts connections from worker and migrate, and from no other component", () => {
    const components = ["worker", "migrate", "api", "operator", "keyvault"];
    const list: Peer[] = listener.networkPolicyPeers;
    expect(components.filter((name) => isLetIn(list, own(name)))).toEqual(["worker", "migrate"]);
    expect(OTHERS.filter((end) => isLetIn(list, end))).toEqual([]);
  });

  test("has node pools, topics and a user that belong to the same cluster", () => {
    const parts = ["KafkaNodePool", "KafkaTopic", "KafkaUser"].flatMap(ofKind);
    expect(parts.length).toBe(6);
    for (const { metadata } of parts) {
      expect(metadata.labels, metadata.name).toEqual({ "strimzi.io/cluster": cluster.metadata.name });
    }
  });

  test("has the topics that `deputize migrate` would create", () => {
    const made = ofKind("KafkaTopic").map(({ metadata, spec }) => ({
      topic: metadata.name,
      partitions: spec.partitions,
      retentionMs: spec.config["retention.ms"],
    }));
    const wanted = wantedTopics({ prefix: kafka.prefix ?? "", partitions: kafka.partitions });
    expect(made).toEqual(Object.values(wanted));
    for (const { spec } of ofKind("KafkaTopic")) {
      expect(spec.replicas).toBe(kafka.replication);
      expect(spec.config).toMatchObject({
        "cleanup.policy": "delete",
        "min.insync.replicas": kafka.replication - 1,
      });
    }
  });

  test("gives its user the rights in docs/events.md, except the right to create topics", () => {
    const given = Object.fromEntries(
      (
        user.spec.authorization.acls as { resource: { type: string; name: string }; operations: string[] }[]
      ).map(({ resource, operations }) => [`${resource.type} ${resource.name}`, operations.toSorted()]),
    );
    const migrate = ["DescribeConfigs"];
    expect(given).toEqual({
      [`topic ${topics.lifecycle}`]: [...migrate, "Read", "Write"],
      [`topic ${topics.audit}`]: [...migrate, "Write"],
      [`topic ${topics.deadLetters}`]: [...migrate, "Write"],
      "group deputize.webhooks": ["Read"],
      "group deputize.notices": ["Read"],
    });
  });
});

describe("network rules in the production example", () => {
  const [{ name: gatewayName, namespace: gateways } = { name: "", namespace: "" }] = gateway.parentRefs;
  const way: End = {
    namespace: gateways,
    labels: { "gateway.networking.k8s.io/gateway-name": gatewayName },
  };
  const brokers = ofKind("KafkaNodePool").map(({ metadata, spec }) => kafkaPod(metadata.name, spec.roles));
  const prometheus: End = { namespace: "monitoring", labels: { "app.kubernetes.io/name": "prometheus" } };
  const applications = operator.watchNamespaces.map((namespace): PeerPod => ({ namespace, labels: {} }));
  const pods: [string, End][] = [
    ["the service's database", database("deputize-db")],
    ["the vault's database", database("deputize-keyvault-db")],
    ...brokers.map((pod): [string, End] => [`Kafka's ${pod.labels["strimzi.io/pool-name"]}`, pod]),
    ["the gateway", way],
    ...applications.map((pod): [string, End] => [`application of ${pod.namespace}`, pod]),
    ["Prometheus", prometheus],
    ...OTHERS.map((pod, index): [string, End] => [`somebody else ${index}`, pod]),
  ];
  const chosen = (list: readonly Peer[]) =>
    pods.filter(([, pod]) => isLetIn(list, pod)).map(([name]) => name);

  test("select exactly the intended pods", () => {
    expect(chosen(peers.database.to)).toEqual(["the service's database"]);
    expect(chosen(peers.keyvaultDatabase.to)).toEqual(["the vault's database"]);
    expect(chosen(peers.kafka.to)).toEqual(["Kafka's brokers"]);
    expect(chosen(peers.prometheus)).toEqual(["Prometheus"]);
    expect(chosen(peers.callers)).toEqual(["the gateway", "application of shop", "application of desk"]);
  });

  const PARTS = [
    "api",
    "worker",
    "migrate",
    "operator",
    "keyvault",
    "keyvault-init",
    "keyvault-backup",
    "test",
  ];
  test.each([
    ["deputize-db", ["api", "worker", "migrate"]],
    ["deputize-keyvault-db", ["keyvault", "keyvault-init"]],
  ])(
    "accept only the clients of the database %s, the database's operator and Prometheus",
    (cluster, clients) => {
      const policies = ofKind("NetworkPolicy").filter(({ spec }) =>
        matches(spec.podSelector, database(cluster).labels),
      );
      expect(policies.map(({ spec }) => spec.policyTypes)).toEqual([["Ingress"]]);
      const rules = policies[0]?.spec.ingress as { from: Peer[]; ports: { port: number }[] }[];
      const keeper = { namespace: "cnpg-system", labels: { "app.kubernetes.io/name": "cloudnative-pg" } };
      const ends: [string, End][] = [
        ...PARTS.map((name): [string, End] => [name, own(name)]),
        ...pods,
        ["the operator of databases", keeper],
      ];
      const letIn = (wanted: number) =>
        ends
          .filter(([, end]) =>
            rules.some(({ from, ports }) => ports.some(({ port }) => port === wanted) && isLetIn(from, end)),
          )
          .map(([name]) => name);
      const itself = cluster === "deputize-db" ? "the service's database" : "the vault's database";
      expect(letIn(5432)).toEqual([...clients, itself, "the operator of databases"]);
      expect(letIn(8000)).toEqual([itself, "the operator of databases"]);
      expect(letIn(9187)).toEqual(["Prometheus"]);
    },
  );

  test("contain the ports of the databases", () => {
    expect([peers.database.port, peers.keyvaultDatabase.port]).toEqual([5432, 5432]);
  });
});

describe("the production example, with certificates and monitors", () => {
  test("includes the issuer of the vault's certificates", () => {
    const { kind, name } = keyvault.tls.issuerRef;
    expect(ofKind(kind).map(({ metadata }) => metadata.name)).toContain(name);
    const issuers = ofKind("Issuer").map(({ metadata }) => metadata.name);
    for (const { spec } of ofKind("Certificate").filter(({ spec }) => spec.issuerRef.kind === "Issuer")) {
      expect(issuers).toContain(spec.issuerRef.name);
    }
  });

  test("includes a Gateway with the listener, host and certificate of the public URL", () => {
    const { metadata, spec } = theOnly("Gateway");
    const [listener] = spec.listeners;
    expect(gateway.parentRefs).toEqual([
      { name: metadata.name, namespace: metadata.namespace, sectionName: listener.name },
    ]);
    const { host } = new URL(api.baseUrl);
    expect([...gateway.hostnames, listener.hostname]).toEqual([host, host]);
    expect(
      matches(listener.allowedRoutes.namespaces.selector, { "kubernetes.io/metadata.name": NAMESPACE }),
    ).toBe(true);
    const shown = ofKind("Certificate").filter(
      ({ metadata: { namespace } }) => namespace === metadata.namespace,
    );
    expect(shown.map(({ spec }) => spec.dnsNames)).toEqual([[host]]);
  });

  test("includes a database monitor with the labels by which Prometheus finds the chart's monitors", () => {
    const { metadata, spec } = theOnly("PodMonitor");
    expect(metadata.labels).toEqual(monitoring.labels);
    const found = ofKind("Cluster").filter((one) =>
      matches(spec.selector, database(one.metadata.name).labels),
    );
    expect(found).toHaveLength(2);
  });
});
