import { EXAMPLE } from "./production/files.ts";

export type Values = { [name: string]: unknown };

const everywhere = [{ namespaceSelector: {} }];
const at = (cidr: string) => [{ ipBlock: { cidr } }];
const secret = (name: string) => ({ existingSecret: { name } });

/** The smallest set of values for a production release. */
export const PRODUCTION: Values = {
  database: secret("deputize-database"),
  sealingKey: secret("deputize-sealing-key"),
  smtp: { ...secret("deputize-smtp"), from: "Deputize <no-reply@example.test>" },
  api: { baseUrl: "https://deputize.example.test" },
  operator: { clusterId: "prod-eu", watchNamespaces: ["shop", "desk"] },
  keyvault: { database: secret("deputize-keyvault-database") },
  network: {
    peers: {
      callers: everywhere,
      database: { to: at("10.20.0.0/24") },
      keyvaultDatabase: { to: at("10.20.1.0/24") },
      smtp: { to: at("10.30.0.25/32") },
      apiServer: { to: at("10.0.0.1/32") },
    },
  },
};

/** Merges two sets of values. The second set takes precedence. */
export function mergeValues(first: Values, second: Values): Values {
  const isTree = (value: unknown): value is Values =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  const merged = Object.entries(second).map(([name, value]) => {
    const before = first[name];
    return [name, isTree(before) && isTree(value) ? mergeValues(before, value) : value];
  });
  return { ...first, ...Object.fromEntries(merged) };
}

const production = (more: Values): Values => mergeValues(PRODUCTION, more);

const KAFKA: Values = {
  kafka: {
    enabled: true,
    brokers: ["broker-0.kafka.svc:9093", "broker-1.kafka.svc:9093"],
    prefix: "deputize.",
    tls: { enabled: true, ca: secret("kafka-ca"), client: secret("kafka-client") },
    sasl: { mechanism: "SCRAM-SHA-512", username: "deputize", password: secret("kafka-user") },
  },
  network: { peers: { kafka: { to: everywhere } } },
};
const OUTSIDE: Values = { api: { trustedProxies: ["10.40.0.0/16"] } };
const INGRESS: Values = {
  ...OUTSIDE,
  ingress: {
    enabled: true,
    className: "nginx",
    annotations: { "cert-manager.io/cluster-issuer": "public" },
    hosts: ["deputize.example.test"],
    tls: [{ secretName: "deputize-tls", hosts: ["deputize.example.test"] }],
  },
};
const GATEWAY: Values = {
  ...OUTSIDE,
  gateway: {
    enabled: true,
    parentRefs: [{ name: "public", namespace: "gateways", sectionName: "https" }],
    hostnames: ["deputize.example.test"],
  },
};
/** Values that choose a pod's node. */
export const PLACE: Values = {
  nodeSelector: { "kubernetes.io/os": "linux" },
  tolerations: [{ key: "dedicated", operator: "Exists" }],
  affinity: { nodeAffinity: {} },
  priorityClassName: "system-cluster-critical",
};
const PLACING: Values = {
  ...PLACE,
  podAnnotations: { "example.test/note": "kept" },
  serviceAccountAnnotations: { "example.test/role": "lend" },
  topologySpreadConstraints: [
    { topologyKey: "zone", maxSkew: 2, whenUnsatisfiable: "DoNotSchedule", labelSelector: {} },
  ],
  extraVolumes: [{ name: "more", emptyDir: {} }],
  extraVolumeMounts: [{ name: "more", mountPath: "/more" }],
  logLevel: "debug",
};

/** Sets of values, by a description of each. */
export const VALUES: Record<string, Values> = {
  trial: { trial: { enabled: true } },
  "trial of named namespaces": { trial: { enabled: true }, operator: { watchNamespaces: ["shop"] } },
  production: PRODUCTION,
  "the production example": EXAMPLE,
  "all namespaces": production({ operator: { watchNamespaces: [], allNamespaces: true } }),
  "namespaces by label": production({
    operator: {
      watchNamespaces: [],
      namespaceSelector: {
        matchLabels: { "example.test/team": "shop" },
        matchExpressions: [
          { key: "env", operator: "NotIn", values: ["test", ""] },
          { key: "lends", operator: "Exists" },
          { key: "off", operator: "DoesNotExist" },
        ],
      },
    },
  }),
  kafka: production(KAFKA),
  ingress: production(INGRESS),
  gateway: production(GATEWAY),
  "without operator": production({ operator: { enabled: false, watchNamespaces: [] } }),
  "without admission policies": production({ admissionPolicies: { enabled: false } }),
  "without network policies": production({ network: { policies: { enabled: false } } }),
  "without roles for people": production({ rbac: { roles: false } }),
  "cert-manager": production({ keyvault: { tls: { mode: "certManager" } } }),
  "certificates of one's own": production({
    keyvault: { tls: { mode: "existingSecret", serverSecret: "server-tls", apiSecret: "api-tls" } },
  }),
  "other clusters": production({
    api: {
      clusters: [{ id: "prod-us", kubeconfig: "prod-us.yaml", context: "reviewer" }],
      clustersKubeconfigs: secret("clusters"),
    },
    network: { peers: { operators: at("10.50.0.0/16") } },
  }),
  everything: production({
    global: {
      imagePullSecrets: [{ name: "pull" }],
      labels: { "example.test/team": "platform" },
      podLabels: { "example.test/cost": "shared" },
      logLevel: "warn",
      hostAliases: [{ ip: "10.0.0.9", hostnames: ["db.internal"] }],
      dnsConfig: { options: [{ name: "ndots", value: "2" }] },
    },
    extraObjects: [{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "{{ .Release.Name }}-more" } }],
    fullnameOverride: "lend",
    image: { repository: "registry.example.test:5000/lend/deputize", digest: `sha256:${"a".repeat(64)}` },
    smtp: { existingSecret: { key: "smtp-url" } },
    api: {
      ...PLACING,
      autoscaling: { enabled: false },
      replicas: 3,
      serviceWordAliases: ["ratify"],
      serviceAdministrators: ["ada@example.test", "grace@example.test"],
      supportContact: "help@example.test",
      historyRetentionMonths: 24,
      webhookAllowedCidrs: ["10.60.0.0/16"],
      settings: { INVOCATION_DAYS: "60", SIGN_IN_URL: "https://deputize.example.test/sign-in" },
      drainSeconds: 10,
      terminationGracePeriodSeconds: 60,
      service: { type: "NodePort", annotations: { "example.test/note": "service" } },
    },
    operator: {
      ...PLACING,
      apiUrl: "https://deputize.example.test",
      consoleUrl: "https://console.example.test",
      endedTtl: "720h",
      orphanGrace: "24h",
      otlpEndpoint: "http://collector.tracing.svc:4318",
    },
    keyvault: {
      pin: secret("keyvault-pin"),
      backup: { enabled: true, recoveryKey: { existingConfigMap: { name: "recovery" } } },
      ceiling: ["data:*"],
    },
    doctor: PLACE,
    worker: { ...PLACING, settings: { LEASE_SECONDS: "20" } },
    network: { peers: { prometheus: everywhere, tracing: { to: everywhere } } },
  }),
  "a pooler in front of the database": production({
    database: { existingSecret: { directKey: "direct" } },
    network: { peers: { databaseDirect: { to: at("10.20.2.9/32"), port: 5433 } } },
  }),
  "addresses of IPv6": production({
    network: {
      listen: "::",
      peers: {
        database: { to: at("fd00:20::/64") },
        keyvaultDatabase: { to: at("fd00:21::/64") },
        smtp: { to: at("fd00:30::25/128") },
        apiServer: { to: at("fd00::1/128") },
      },
    },
  }),
  "the longest name": production({
    worker: { podDisruptionBudget: { minAvailable: 1 } },
    fullnameOverride: "a-name-that-is-as-long-as-a-name-of-the-release-may-be-in-a-label".slice(0, 63),
    keyvault: { backup: { enabled: true, recoveryKey: { existingConfigMap: { name: "recovery" } } } },
    monitoring: { enabled: true },
    ...INGRESS,
  }),
};
