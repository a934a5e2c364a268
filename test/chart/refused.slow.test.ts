import { describe, expect, test } from "vitest";
import { HELMS, helm } from "../support/helm.ts";
import { NAMESPACE, template } from "./render.ts";
import { mergeValues, PRODUCTION, VALUES, type Values } from "./values.ts";

const programs = await Promise.all(HELMS.map(async (version) => ({ version, ...(await helm(version)) })));
for (const { missing } of programs) if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

const production = (more: Values): Values => mergeValues(PRODUCTION, more);
const without = (section: string): Values => production({ [section]: { existingSecret: { name: "" } } });
const peers = (more: Values): Values => production({ network: { peers: more } });
const clusters = (id: string): Values => ({
  clusters: [{ id, kubeconfig: "us.yaml" }],
  clustersKubeconfigs: { existingSecret: { name: "clusters" } },
});
const volume = (name: string) => ({ name, emptyDir: {} });
const kafka = (more: Values): Values => mergeValues(VALUES.kafka ?? {}, { kafka: more });

const LABELED = { matchLabels: { team: "shop" } };
const selected = (namespaceSelector: Values, more: Values = {}): Values =>
  production({ operator: { watchNamespaces: [], namespaceSelector, ...more } });
const ONLY_ONE =
  "Set only one of operator.watchNamespaces, operator.namespaceSelector and operator.allNamespaces.";
const EXTRA = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "more" } };

/** Values that cannot work, and the beginning of the error message for each. */
const REFUSED: [string, Values, string][] = [
  [
    "no namespaces",
    production({ operator: { watchNamespaces: [] } }),
    "Say where the operator works: operator.watchNamespaces names the namespaces, ",
  ],
  ["both named and all namespaces", production({ operator: { allNamespaces: true } }), ONLY_ONE],
  [
    "both named and all namespaces in a trial",
    { trial: { enabled: true }, operator: { allNamespaces: true, watchNamespaces: ["shop"] } },
    ONLY_ONE,
  ],
  ["both named and selected namespaces", production({ operator: { namespaceSelector: LABELED } }), ONLY_ONE],
  ["both selected and all namespaces", selected(LABELED, { allNamespaces: true }), ONLY_ONE],
  [
    "a selector without a label",
    selected({ matchLabels: {}, matchExpressions: [] }),
    "operator.namespaceSelector has no label, so it would select every namespace.",
  ],
  [
    "a selector without a label in a trial",
    { trial: { enabled: true }, operator: { namespaceSelector: { matchLabels: {} } } },
    "operator.namespaceSelector has no label, so it would select every namespace.",
  ],
  ...(["In", "NotIn"] as const).map((operator): [string, Values, string] => [
    `a selector with ${operator} and no values`,
    selected({ matchExpressions: [{ key: "env", operator, values: [] }] }),
    `operator.namespaceSelector: the operator ${operator} of the label env needs values.`,
  ]),
  [
    "a selector with Exists and a value",
    selected({ matchExpressions: [{ key: "env", operator: "Exists", values: ["test"] }] }),
    "operator.namespaceSelector: the operator Exists of the label env needs no values.",
  ],
  [
    "selected namespaces without policies",
    mergeValues(selected(LABELED), { admissionPolicies: { enabled: false } }),
    "admissionPolicies.enabled=false needs operator.watchNamespaces",
  ],
  [
    "all namespaces without policies",
    production({
      admissionPolicies: { enabled: false },
      operator: { watchNamespaces: [], allNamespaces: true },
    }),
    "admissionPolicies.enabled=false needs operator.watchNamespaces",
  ],
  [
    "all namespaces without policies in a trial",
    { trial: { enabled: true }, admissionPolicies: { enabled: false } },
    "admissionPolicies.enabled=false needs operator.watchNamespaces",
  ],
  [
    "the release's own namespace as a watched one",
    production({ operator: { watchNamespaces: ["shop", NAMESPACE] } }),
    `operator.watchNamespaces has ${NAMESPACE}, where the release is`,
  ],
  ...[
    ["a Secret whose kind is a template", { kind: '{{ "Secret" }}' }, "extraObjects[0] is a Secret"],
    ["a Secret in small letters", { kind: " secret" }, "extraObjects[0] is a Secret"],
    ["a list of Secrets", { kind: "List", items: [EXTRA] }, "extraObjects[0] has several objects."],
    ["a list of another kind", { kind: "SecretList", items: [] }, "extraObjects[0] has several objects."],
    [
      "a second document",
      { kind: 'A{{ printf "\\n---\\nkind%s Secret" ":" }}' },
      "extraObjects[0] has several objects.",
    ],
    [
      "broken YAML",
      { kind: 'Con{{ list "" " b" | join ":" }}' },
      "extraObjects[0] is not valid YAML after its templates ran",
    ],
    [
      "an object without a name",
      { metadata: { name: '{{ "" }}' } },
      "extraObjects[0] is not an object: it needs apiVersion",
    ],
    [
      "labels that are a text",
      { metadata: { name: "a", labels: "x" } },
      "extraObjects[0] has metadata.labels",
    ],
  ].map(([title, changes, sentence]): [string, Values, string] => [
    `${String(title)} among the extra objects`,
    production({ extraObjects: [{ ...EXTRA, ...(changes as object) }] }),
    String(sentence),
  ]),
  ["no cluster id", production({ operator: { clusterId: "" } }), "operator.clusterId is empty."],
  [
    "two clusters with the same id",
    production({ api: clusters("prod-eu"), network: { peers: { operators: [{ namespaceSelector: {} }] } } }),
    "api.clusters has the id prod-eu, which is operator.clusterId.",
  ],
  ["no database", without("database"), "database.existingSecret.name is empty."],
  ["no sealing key", without("sealingKey"), "sealingKey.existingSecret.name is empty."],
  ["no mail server", without("smtp"), "smtp.existingSecret.name is empty."],
  [
    "an external database in a trial",
    { trial: { enabled: true }, database: { existingSecret: { name: "given" } } },
    "trial.enabled=true and database.existingSecret.name are both given.",
  ],
  [
    "an own sealing key in a trial",
    { trial: { enabled: true }, sealingKey: { existingSecret: { name: "given" } } },
    "trial.enabled=true and sealingKey.existingSecret.name are both given.",
  ],
  [
    "a trial with an ingress",
    { trial: { enabled: true }, ingress: { enabled: true, hosts: ["deputize.example.test"] } },
    "A trial runs in development mode, which must not be reached from outside",
  ],
  ["no callers", peers({ callers: [] }), "network.peers.callers is empty."],
  ["no way to the database", peers({ database: { to: [] } }), "network.peers.database.to is empty."],
  [
    "no way around the pooler",
    production({ database: { existingSecret: { directKey: "direct" } } }),
    "network.peers.databaseDirect.to is empty.",
  ],
  ["no way to the mail server", peers({ smtp: { to: [] } }), "network.peers.smtp.to is empty."],
  ["no way to the API server", peers({ apiServer: { to: [] } }), "network.peers.apiServer.to is empty."],
  [
    "missing peers for the brokers",
    mergeValues(VALUES.kafka ?? {}, { network: { peers: { kafka: { to: [] } } } }),
    "network.peers.kafka.to is empty.",
  ],
  [
    "missing peers for the brokers of a trial",
    { trial: { enabled: true }, kafka: { enabled: true, brokers: ["broker.kafka.svc:9093"] } },
    "network.peers.kafka.to is empty.",
  ],
  [
    "missing peers for the mail server of a trial",
    { trial: { enabled: true }, smtp: { existingSecret: { name: "smtp" } } },
    "network.peers.smtp.to is empty.",
  ],
  ["no way for operators", production({ api: clusters("prod-us") }), "network.peers.operators is empty."],
  [
    "missing peers for the collector",
    production({ operator: { otlpEndpoint: "http://collector:4318" } }),
    "network.peers.tracing.to is empty.",
  ],
  ["no base URL", production({ api: { baseUrl: "" } }), "api.baseUrl must be the https:// URL"],
  [
    "a base URL without TLS",
    production({ api: { baseUrl: "http://a.test" } }),
    "api.baseUrl must be the https:// URL",
  ],
  [
    "an ingress without trusted proxies",
    mergeValues(VALUES.ingress ?? {}, { api: { trustedProxies: [] } }),
    "api.trustedProxies is empty.",
  ],
  [
    "an ingress for another host",
    mergeValues(VALUES.ingress ?? {}, { ingress: { hosts: ["other.test"] } }),
    "ingress.hosts does not have deputize.example.test, the host of api.baseUrl.",
  ],
  [
    "a route without a gateway",
    mergeValues(VALUES.gateway ?? {}, { gateway: { parentRefs: [] } }),
    "gateway.parentRefs is empty.",
  ],
  [
    "a route for another host",
    mergeValues(VALUES.gateway ?? {}, { gateway: { hostnames: ["other.test"] } }),
    "gateway.hostnames does not have deputize.example.test, the host of api.baseUrl.",
  ],
  [
    "more minimum than maximum replicas",
    production({ api: { autoscaling: { minReplicas: 4, maxReplicas: 3 } } }),
    "api.autoscaling.minReplicas is greater than maxReplicas.",
  ],
  [
    "too short a time to stop",
    production({ api: { drainSeconds: 31, terminationGracePeriodSeconds: 45 } }),
    "api.terminationGracePeriodSeconds must be at least 15 more than api.drainSeconds",
  ],
  [
    "clusters without kubeconfigs",
    production({
      api: { ...clusters("prod-us"), clustersKubeconfigs: { existingSecret: { name: "" } } },
      network: { peers: { operators: [{ namespaceSelector: {} }] } },
    }),
    "api.clusters is given and api.clustersKubeconfigs.existingSecret.name is empty.",
  ],
  ["no brokers", kafka({ brokers: [] }), "kafka.enabled=true and kafka.brokers is empty."],
  [
    "a SASL mechanism without a user",
    kafka({ sasl: { username: "" } }),
    "kafka.sasl.mechanism needs kafka.sasl.username",
  ],
  [
    "a SASL user without a mechanism",
    kafka({ sasl: { mechanism: "" } }),
    "kafka.sasl.username needs kafka.sasl.mechanism.",
  ],
  [
    "certificates without TLS",
    kafka({ tls: { enabled: false } }),
    "kafka.tls has certificates and kafka.tls.enabled is false.",
  ],
  [
    "a secret in the settings",
    production({ worker: { settings: { DATABASE_URL: "postgres://user:password@host/db" } } }),
    "worker.settings has DATABASE_URL: a secret does not belong into values.",
  ],
  [
    "a setting that the chart sets itself",
    production({ api: { settings: { BASE_URL: "https://other.test" } } }),
    "api.settings has BASE_URL, which the chart sets.",
  ],
  [
    "a volume with the name of another one",
    production({ api: { extraVolumes: [{ name: "database", emptyDir: {} }] } }),
    "api.extraVolumes has a volume database, and the pod has another volume of this name.",
  ],
  [
    "the same volume twice",
    production({ worker: { extraVolumes: [volume("more"), volume("more")] } }),
    "worker.extraVolumes has a volume more,",
  ],
  [
    "a volume with the name of one that only this role has",
    production({ operator: { extraVolumes: [volume("api-token")] } }),
    "operator.extraVolumes has a volume api-token,",
  ],
  [
    "a volume with the name of the vault's claim",
    production({ keyvault: { extraVolumes: [volume("data")] } }),
    "keyvault.extraVolumes has a volume data,",
  ],
  [
    "two mounts at the same path",
    production({ operator: { extraVolumeMounts: [{ name: "tmp", mountPath: "/tmp/" }] } }),
    "operator.extraVolumeMounts has the mountPath /tmp/, where another volume is mounted.",
  ],
  [
    "a mount at a path of the vault",
    production({ keyvault: { extraVolumeMounts: [{ name: "tmp", mountPath: "/etc/keyvault/revoked" }] } }),
    "keyvault.extraVolumeMounts has the mountPath /etc/keyvault/revoked,",
  ],
  [
    "a mount without a volume",
    production({ api: { extraVolumeMounts: [{ name: "absent", mountPath: "/more" }] } }),
    "api.extraVolumeMounts mounts the volume absent, which the pod does not have.",
  ],
  [
    "two init containers with the same name",
    production({ keyvault: { extraInitContainers: [{ name: "init", image: "other" }] } }),
    "keyvault.extraInitContainers has a container init,",
  ],
];

/** Names of releases that Helm accepts and Services do not. */
const RELEASES = ["my.deputize", "1deputize"];

/** Values that the schema rejects, and the path that the error message names. */
const MISTYPED: [string, Values, RegExp][] = [
  ["an unknown section", production({ databse: {} }), /databse/],
  ["an unknown value", production({ api: { replcas: 3 } }), /replcas/],
  [
    "a retention of more than a century",
    production({ api: { historyRetentionMonths: 1_201 } }),
    /historyRetentionMonths/,
  ],
  // With `helm upgrade --reuse-values`, a value that the former version did not have is missing.
  ["a missing value", production({ network: { listen: null } }), /'\/network': missing property 'listen'/],
  ["a misspelled setting", production({ api: { settings: { INVOCATION_DAY: "60" } } }), /INVOCATION_DAY'/],
  [
    "a setting of another role",
    production({ worker: { settings: { INVOCATION_DAYS: "60" } } }),
    /\/worker\/settings.*INVOCATION_DAYS/,
  ],
  [
    "a misspelled setting of the vault",
    production({ keyvault: { settings: { KEYVAULT_RATE: "1" } } }),
    /KEYVAULT_RATE'/,
  ],
  ["an empty ceiling", production({ keyvault: { ceiling: [] } }), /ceiling.*minItems/],
  ["no port for callbacks", peers({ callbacks: { ports: [] } }), /callbacks\/ports.*minItems/],
  ["a block of no form", peers({ callers: [{ ipBlock: {} }] }), /ipBlock.*cidr/],
  ["an empty network", production({ api: { webhookAllowedCidrs: [""] } }), /webhookAllowedCidrs/],
  ["a number as a setting", production({ api: { settings: { INVOCATION_DAYS: 60 } } }), /INVOCATION_DAYS/],
  [
    "a label by which the chart selects pods",
    production({ global: { podLabels: { "app.kubernetes.io/component": "x" } } }),
    /podLabels/,
  ],
  ["a name that no object may have", production({ fullnameOverride: "Lend" }), /fullnameOverride/],
  ["a name that no label may have", production({ nameOverride: "a b" }), /nameOverride/],
  [
    "a volume without a name",
    production({ api: { extraVolumes: [{ emptyDir: {} }] } }),
    /extraVolumes.*name/,
  ],
  [
    "a Secret of one's own",
    production({ extraObjects: [{ apiVersion: "v1", kind: "Secret", metadata: { name: "more" } }] }),
    /extraObjects\/0\/kind/,
  ],
  ["a tag in the repository", production({ image: { repository: "deputize:1" } }), /repository/],
  ["a digest of another form", production({ image: { digest: "sha256:12" } }), /digest/],
  ["a name that is no namespace", production({ operator: { watchNamespaces: ["Shop"] } }), /watchNamespaces/],
  ["a label that is none", selected({ matchLabels: { "te am": "shop" } }), /namespaceSelector/],
  ["a value that is no label's", selected({ matchLabels: { team: "shop,!x" } }), /namespaceSelector/],
  [
    "an operator that is none",
    selected({ matchExpressions: [{ key: "a", operator: "Gt" }] }),
    /namespaceSelector/,
  ],
  ["a duration without unit", production({ operator: { endedTtl: "720" } }), /endedTtl/],
  ["a broker without port", production({ kafka: { brokers: ["broker"] } }), /brokers/],
  ["a place to listen of one's own", production({ network: { listen: "10.0.0.1" } }), /listen/],
  ["a peer of no form", production({ network: { peers: { callers: [{}] } } }), /callers/],
];

describe.each(programs)("the chart with helm $version", ({ path = "", missing }) => {
  test.skipIf(missing !== undefined).each(REFUSED)("fails to render with %s", async (_, values, sentence) => {
    const { isGood, err } = await template(path, values);
    expect(err).toContain(sentence);
    expect(isGood).toBe(false);
  });

  test.skipIf(missing !== undefined).each(MISTYPED)(
    "has a schema that rejects %s",
    async (_, values, where) => {
      const { isGood, err } = await template(path, values);
      expect(err).toMatch(where);
      expect(isGood).toBe(false);
    },
  );

  test.skipIf(missing !== undefined).each(RELEASES)(
    "refuses the release name %s, unless another name is given",
    async (release) => {
      const { isGood, err } = await template(path, PRODUCTION, { release });
      expect(err).toContain(`The names of Services would begin with ${release}.`);
      expect(isGood).toBe(false);
      const named = production({ fullnameOverride: "lend" });
      expect(await template(path, named, { release })).toMatchObject({ isGood: true, err: "" });
    },
  );

  test.skipIf(missing !== undefined)("never prints a secret that a user put into the settings", async () => {
    const { out, err } = await template(
      path,
      production({ api: { settings: { SMTP_URL: "smtp://u:hush@h" } } }),
    );
    expect(`${out}${err}`).toContain("SMTP_URL");
    expect(`${out}${err}`).not.toContain("hush");
  });
});
