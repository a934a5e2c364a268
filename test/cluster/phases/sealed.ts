import { randomBytes } from "node:crypto";
import { until } from "../../support/process.ts";
import { podOf, RECOVERY } from "../support/release.ts";
import type { Tools } from "../support/tools.ts";
import { INIT_PIN, secretFor } from "./restore.ts";

/** Namespace of a production-like release next to the trial under test. */
export const APART = "deputize-apart";
const DATABASE = "database";
const VAULT_POD = "deputize-keyvault-0";
const everywhere = [{ ipBlock: { cidr: "0.0.0.0/0" } }];
const isDatabase = { to: [{ podSelector: { matchLabels: { app: DATABASE } } }] };

/** Values of a production release. It has no cluster-wide objects: they belong to the release under test. */
export function sealedValues(tag: string, more: object = {}): object {
  const image = { tag, pullPolicy: "Never" };
  const existing = (name: string) => ({ existingSecret: { name } });
  return {
    image,
    database: existing("deputize-database"),
    sealingKey: existing("deputize-sealing-key"),
    smtp: { ...existing("deputize-smtp"), from: "Deputize <no-reply@example.test>" },
    api: { baseUrl: "https://deputize.example.test", replicas: 1, autoscaling: { enabled: false } },
    worker: { replicas: 1 },
    operator: { enabled: false },
    admissionPolicies: { enabled: false },
    rbac: { roles: false },
    keyvault: {
      image,
      database: existing("deputize-keyvault-database"),
      backup: { enabled: true, recoveryKey: { existingConfigMap: { name: RECOVERY } } },
      ...more,
    },
    network: {
      peers: {
        callers: [{ namespaceSelector: {} }],
        database: isDatabase,
        keyvaultDatabase: isDatabase,
        smtp: { to: everywhere },
        apiServer: { to: everywhere },
      },
    },
  };
}

/**
 * Creates a database and the Secrets that the values name. Returns a PIN that none of these Secrets contains.
 */
export async function makeSecrets(tools: Tools, postgresImage: string): Promise<string> {
  const password = () => randomBytes(16).toString("hex");
  const roles = {
    postgres: password(),
    deputize: password(),
    keyvault: password(),
    keyvault_owner: password(),
  };
  const url = (role: keyof typeof roles, database: string) =>
    `postgres://${role}:${roles[role]}@${DATABASE}.${tools.namespace}.svc:5432/${database}`;
  const init = [
    `create role deputize login password '${roles.deputize}';`,
    `create role keyvault_owner login password '${roles.keyvault_owner}';`,
    `create role keyvault login password '${roles.keyvault}';`,
    "create database deputize owner deputize;",
    "create database keyvault owner keyvault_owner;\n",
  ];
  const pin = randomBytes(32).toString("hex");
  const sealingKey = randomBytes(32).toString("base64");
  await tools.apply(
    secretFor(tools, "postgres", { password: roles.postgres, "init.sql": init.join("\n") }),
    secretFor(tools, "deputize-database", { url: url("deputize", "deputize") }),
    secretFor(tools, "deputize-sealing-key", { sealingKey }),
    secretFor(tools, "deputize-smtp", { url: "smtps://deputize:none@mail.example.test" }),
    secretFor(tools, "deputize-keyvault-database", {
      url: url("keyvault", "keyvault"),
      migrationUrl: url("keyvault_owner", "keyvault"),
    }),
    ...databaseOf(tools, postgresImage),
  );
  await tools.kubectl("-n", tools.namespace, "wait", "--for=condition=Ready", `pod/${DATABASE}`);
  return pin;
}

/** Waits until a new vault asks for its PIN, and stores the PIN in the intended Secret. */
export async function givePin(tools: Tools, pin: string): Promise<void> {
  const asks = async () =>
    (await tools.kubectl("-n", tools.namespace, "logs", VAULT_POD, "-c", "init").catch(String)).includes(
      "A new vault needs its PIN",
    );
  await until("the vault asks for its PIN", asks, 60_000);
  await tools.apply(secretFor(tools, INIT_PIN, { pin }));
}

/** Deletes the Secret with the PIN, because only the first start needs it. */
export async function forgetPin(tools: Tools): Promise<void> {
  await tools.kubectl("-n", tools.namespace, "delete", "secret", INIT_PIN);
}

/** Returns the uid of the vault's pod. A pod that replaces it has a different uid. */
export const vaultPod = async (tools: Tools) => (await podOf(tools, "keyvault")).metadata.uid;

/** Returns whether a Secret with the PIN is mounted into the running vault. */
export async function seesPin(tools: Tools): Promise<boolean> {
  type Container = { name: string; volumeMounts: { name: string }[] };
  const pod = await tools.read<{ spec: { containers: Container[] } }>(
    ...["-n", tools.namespace, "get", "pod", VAULT_POD],
  );
  return pod.spec.containers.some(({ volumeMounts }) => volumeMounts.some(({ name }) => /pin/.test(name)));
}

function databaseOf({ namespace }: Tools, image: string): object[] {
  const metadata = { name: DATABASE, namespace, labels: { app: DATABASE } };
  const mounts = [
    { name: "tmp", mountPath: "/tmp" },
    { name: "data", mountPath: "/var/lib/postgresql" },
    { name: "postgres", mountPath: "/run/secrets/postgres", readOnly: true },
  ];
  return [
    {
      apiVersion: "v1",
      kind: "Service",
      metadata,
      spec: { selector: { app: DATABASE }, ports: [{ port: 5432 }] },
    },
    {
      apiVersion: "v1",
      kind: "Pod",
      metadata,
      spec: {
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        securityContext: {
          runAsNonRoot: true,
          runAsUser: 10001,
          fsGroup: 10001,
          seccompProfile: { type: "RuntimeDefault" },
        },
        containers: [
          {
            name: "postgres",
            image,
            imagePullPolicy: "Never",
            readinessProbe: { tcpSocket: { port: 5432 }, periodSeconds: 1 },
            securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
            volumeMounts: mounts,
          },
        ],
        volumes: [
          { name: "tmp", emptyDir: {} },
          { name: "data", emptyDir: {} },
          { name: "postgres", secret: { secretName: "postgres", defaultMode: 0o440 } },
        ],
      },
    },
  ];
}
