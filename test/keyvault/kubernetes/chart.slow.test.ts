import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { loadConfig } from "../../../keyvault/config.ts";
import { CHART, type Container, podsOf, type Rendered, render, template } from "../../chart/render.ts";
import { mergeValues, PRODUCTION, type Values } from "../../chart/values.ts";
import { helm } from "../../support/helm.ts";

vi.setConfig({ testTimeout: 60_000 });

const program = await helm("v3");
if (program.missing !== undefined) console.error(`SKIPPED, missing: ${program.missing}`);
const path = program.path ?? "";

const BACKUP = { enabled: true, recoveryKey: { existingConfigMap: { name: "recovery" } } };
const vault = (keyvault: Values): Values => mergeValues(PRODUCTION, { keyvault });
const SEALED = vault({ backup: BACKUP });
const WITH_PIN = vault({ pin: { existingSecret: { name: "the-pin" } } });

type Vault = { objects: Rendered[]; set: Rendered; serve: Container; init: Container };

async function vaultOf(values: Values): Promise<Vault> {
  const objects = await render(path, values);
  const set = objects.find(
    ({ kind, metadata }) => kind === "StatefulSet" && /-keyvault$/.test(metadata.name),
  );
  const { containers, initContainers } = set?.spec.template.spec ?? {};
  return { objects, set: set as Rendered, serve: containers[0], init: initContainers.at(-1) };
}
const volumesOf = ({ set }: Vault) => set.spec.template.spec.volumes as { name: string; secret?: object }[];
const mountsOf = ({ volumeMounts = [] }: Container) => volumeMounts.map(({ name }) => name).sort();
const settingsOf = ({ env = [] }: Container) =>
  Object.fromEntries(env.map(({ name, value }) => [name, value ?? ""]));
const named = (objects: readonly Rendered[], kind: string, name: string): Rendered => {
  const found = objects.find((object) => object.kind === kind && object.metadata.name === name);
  if (found === undefined) throw new Error(`There is no ${kind} ${name}`);
  return found;
};
const componentsIn = (rule: { from?: Rendered[]; to?: Rendered[] }): unknown[] =>
  [...(rule.from ?? []), ...(rule.to ?? [])].flatMap(
    ({ podSelector }) => podSelector?.matchExpressions?.[0]?.values ?? [],
  );

describe.skipIf(program.missing !== undefined)("the chart's key vault", () => {
  test("gives the running container neither the database owner's URL nor the certificate authority's key, admin certificates or a PIN", async () => {
    const made = await vaultOf(SEALED);
    expect(mountsOf(made.serve)).toEqual([
      "data",
      "keyvault-database",
      "keyvault-tls",
      "recovery",
      "revoked",
      "tmp",
    ]);
    expect(mountsOf(made.init)).toEqual([
      "data",
      "keyvault-database",
      "keyvault-init-pin",
      "keyvault-owner",
      "tmp",
    ]);
    const secrets = volumesOf(made).flatMap(({ secret }) => (secret === undefined ? [] : [secret]));
    expect(secrets).toMatchObject([
      { secretName: "deputize-keyvault-database", items: [{ key: "url" }] },
      { secretName: "deputize-keyvault-database", items: [{ key: "migrationUrl" }] },
      { secretName: "deputize-keyvault-tls" },
      { secretName: "deputize-keyvault-init-pin", optional: true },
    ]);
    for (const { env = [], envFrom } of [made.serve, made.init]) {
      expect(env.filter(({ valueFrom }) => valueFrom !== undefined)).toEqual([]);
      expect(envFrom).toBeUndefined();
    }
    expect(settingsOf(made.serve)).not.toHaveProperty("KEYVAULT_MIGRATION_DATABASE_URL_FILE");
    expect(made.set.spec.template.spec.automountServiceAccountToken).toBe(false);
  });

  test("opens automatically only with a PIN, and both of its containers mount that PIN", async () => {
    const made = await vaultOf(WITH_PIN);
    expect(mountsOf(made.serve)).toContain("keyvault-pin");
    expect(mountsOf(made.init)).toContain("keyvault-pin");
    expect(volumesOf(made).find(({ name }) => name === "keyvault-pin")?.secret).toMatchObject({
      secretName: "the-pin",
      items: [{ key: "pin", path: "pin" }],
    });
    const budget = ({ objects }: Vault) =>
      named(objects, "PodDisruptionBudget", "deputize-keyvault").spec.maxUnavailable;
    expect([budget(made), budget(await vaultOf(SEALED))]).toEqual([1, 0]);
  });

  test("keeps running during an upgrade, because its update strategy is OnDelete and its pod has no chart version", async () => {
    const folder = await mkdtemp(join(tmpdir(), "chart-"));
    try {
      await cp(CHART, folder, { recursive: true });
      const about = await readFile(join(folder, "Chart.yaml"), "utf8");
      await writeFile(
        join(folder, "Chart.yaml"),
        about.replaceAll(/^(version|appVersion): .*$/gm, "$1: 9.9.9"),
      );
      const values = mergeValues(SEALED, { keyvault: { image: { tag: "1" } } });
      const before = (await vaultOf(values)).set;
      const after = (await render(path, values, { chart: folder })).find(
        ({ kind, metadata }) => kind === "StatefulSet" && metadata.name === "deputize-keyvault",
      );
      expect(after?.metadata.labels?.["app.kubernetes.io/version"]).toBe("9.9.9");
      expect(after?.spec).toEqual(before.spec);
      expect(before.spec).toMatchObject({ replicas: 1, updateStrategy: { type: "OnDelete" } });
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test("has probes for which a sealed vault is alive but not ready", async () => {
    const { serve } = await vaultOf(SEALED);
    expect(serve).toMatchObject({
      livenessProbe: { httpGet: { path: "/livez", port: "health" } },
      startupProbe: { httpGet: { path: "/livez", port: "health" } },
      readinessProbe: { httpGet: { path: "/readyz", port: "health" } },
    });
  });

  test("gets valid settings, including those from the chart's values", async () => {
    // A file that exists. Nothing loads it.
    const module = process.execPath;
    const made = await vaultOf(
      vault({
        backup: BACKUP,
        ceiling: ["data:read", "custom:*"],
        auditHeads: { logSeconds: 7 },
        hsm: {
          module,
          tokenLabel: "vault",
          environment: { HSM_CONF: "/etc/hsm/conf", HSM_SLOT: "2" },
        },
        settings: { KEYVAULT_KEYS_PER_TENANT: "5" },
      }),
    );
    const folder = await mkdtemp(join(tmpdir(), "url-"));
    await writeFile(join(folder, "url"), "postgres://run@host/vault");
    const settings = settingsOf(made.serve);
    const config = loadConfig({ ...settings, KEYVAULT_DATABASE_URL_FILE: join(folder, "url") });
    await rm(folder, { recursive: true });
    expect(config).toMatchObject({
      listen: { host: "0.0.0.0", port: 8443 },
      health: { host: "0.0.0.0", port: 9090 },
      recoveryKeyFile: "/etc/keyvault/recovery/recovery.pub",
      auditHeadsLogSeconds: 7,
      keysPerTenant: 5,
      delegations: { ceiling: ["data:read", "custom:*"] },
      token: {
        module,
        label: "vault",
        managed: false,
        environment: { HSM_CONF: "/etc/hsm/conf", HSM_SLOT: "2" },
      },
    });
    const mounted = made.serve.volumeMounts?.map(({ mountPath }) => mountPath) ?? [];
    for (const file of [
      config.tls.caFile,
      config.tls.certFile,
      config.tls.revokedFile,
      config.recoveryKeyFile,
    ]) {
      expect(
        mounted.some((folder) => file.startsWith(`${folder}/`)),
        file,
      ).toBe(true);
    }
  });

  test("gets certificates for its names from Jobs that have rights to the certificates' Secrets only", async () => {
    const { objects } = await vaultOf(SEALED);
    for (const name of ["deputize-keyvault-certificates", "deputize-keyvault-renewal"]) {
      const [rule, ...more] = named(objects, "Role", name).rules;
      expect(more).toEqual([]);
      expect(rule.verbs).toEqual(["get", "create", "patch"]);
      const pod = podsOf(objects).find(({ template }) => template.spec.serviceAccountName === name);
      const args = pod?.template.spec.containers[0]?.args ?? [];
      const wanted = args.flatMap(
        (arg) => /^--(?:authority|server|client)=(?:.*=)?(.+)$/.exec(arg)?.[1] ?? [],
      );
      expect([...rule.resourceNames].sort()).toEqual(wanted.sort());
      expect(args).toContain("--client=api/api=deputize-keyvault-api-tls");
      expect(args).toContain("--client=backup/backup=deputize-keyvault-backup-tls");
      const api = named(objects, "Deployment", "deputize-api").spec.template.spec.containers[0] as Container;
      const { hostname } = new URL(settingsOf(api).VAULT_URL ?? "");
      expect(args).toContain(`--server-name=${hostname}`);
      expect(args).toContain("--server-name=localhost");
    }
  });

  test("gets the same certificates from cert-manager as from the Job, and each client certificate has one role", async () => {
    const { objects } = await vaultOf(mergeValues(SEALED, { keyvault: { tls: { mode: "certManager" } } }));
    expect(objects.filter(({ metadata: { name } }) => /certificates|renewal/.test(name))).toEqual([]);
    const certificates = objects.filter(({ kind, spec }) => kind === "Certificate" && !spec.isCA);
    expect(Object.fromEntries(certificates.map(({ spec }) => [spec.secretName, spec.uris]))).toEqual({
      "deputize-keyvault-tls": undefined,
      "deputize-keyvault-api-tls": ["deputize://role/api/api"],
      "deputize-keyvault-admin-tls": ["deputize://role/admin/admin"],
      "deputize-keyvault-backup-tls": ["deputize://role/backup/backup"],
    });
    expect(named(objects, "Certificate", "deputize-keyvault-tls").spec).toMatchObject({
      dnsNames: expect.arrayContaining(["localhost", "deputize-keyvault.deputize-system.svc"]),
      ipAddresses: ["127.0.0.1"],
      usages: ["digital signature", "server auth"],
    });
  });

  test("accepts connections only from the API, its doctor and backups, and connects only to its database", async () => {
    const { objects } = await vaultOf(SEALED);
    const { ingress, egress } = named(objects, "NetworkPolicy", "deputize-keyvault").spec;
    expect(ingress.flatMap(componentsIn)).toEqual(["api", "doctor-api", "keyvault-backup"]);
    expect(ingress).toHaveLength(1);
    expect(egress.slice(1)).toEqual([
      { to: [{ ipBlock: { cidr: "10.20.1.0/24" } }], ports: [{ port: 5432, protocol: "TCP" }] },
    ]);
    const backup = named(objects, "NetworkPolicy", "deputize-keyvault-backup").spec;
    expect(backup.ingress).toBeUndefined();
    expect(backup.egress.slice(1).flatMap(componentsIn)).toEqual(["keyvault"]);
  });

  test("takes backups with a separate certificate into a persistent volume, and takes the first backup right after the installation", async () => {
    const { objects } = await vaultOf(SEALED);
    const claim = named(objects, "PersistentVolumeClaim", "deputize-keyvault-backups");
    expect(claim.metadata.annotations).toEqual({ "helm.sh/resource-policy": "keep" });
    const pods = podsOf(objects).filter(
      ({ template }) => template.spec.serviceAccountName === "deputize-keyvault-backup",
    );
    expect(pods.map(({ of }) => of.kind).sort()).toEqual(["CronJob", "Job"]);
    for (const {
      template: { spec },
    } of pods) {
      expect(spec.containers[0]?.args).toEqual(
        expect.arrayContaining(["--out-dir=/backups", "--keep=14", "--json"]),
      );
      expect(JSON.stringify(spec.volumes)).not.toMatch(/admin|authority|keyvault-database/);
    }
    const changed = await vaultOf(mergeValues(SEALED, { keyvault: { image: { tag: "next" } } }));
    const firstOf = ({ objects }: Vault) =>
      objects.find(({ kind, metadata: { name } }) => kind === "Job" && name.includes("keyvault-backup-"));
    expect(firstOf(changed)?.metadata.name).not.toBe(firstOf(await vaultOf(SEALED))?.metadata.name);
  });

  const existing = { mode: "existingSecret", serverSecret: "server", apiSecret: "api" };
  test("uses existing certificates if the values name them", async () => {
    const made = await vaultOf(vault({ tls: existing }));
    expect(volumesOf(made).find(({ name }) => name === "keyvault-tls")?.secret).toMatchObject({
      secretName: "server",
    });
    expect(
      made.objects.filter(({ kind, metadata }) => kind === "Role" && /keyvault/.test(metadata.name)),
    ).toEqual([]);
  });

  test.each<[string, Values, string]>([
    [
      "a missing database",
      vault({ database: { existingSecret: { name: "" } } }),
      "keyvault.database.existingSecret.name is empty.",
    ],
    [
      "an external database in a trial",
      { trial: { enabled: true }, keyvault: { database: { existingSecret: { name: "given" } } } },
      "trial.enabled=true and keyvault.database.existingSecret.name are both given.",
    ],
    [
      "a missing certificate name",
      vault({ tls: { ...existing, apiSecret: "" } }),
      "keyvault.tls.apiSecret is empty.",
    ],
    [
      "a missing name of the backup's certificate",
      vault({ tls: existing, backup: BACKUP }),
      "keyvault.tls.backupSecret is empty.",
    ],
    [
      "a renewal at every run",
      vault({ tls: { days: 30, renewDays: 30 } }),
      "keyvault.tls.renewDays must be less",
    ],
    ["a renewal after the alert", vault({ tls: { renewDays: 20 } }), "renewDays"],
    ["certificates shorter than the alert's period", vault({ tls: { days: 29, renewDays: 21 } }), "days"],
    [
      "an issuer without a name",
      vault({ tls: { mode: "certManager", issuerRef: { kind: "ClusterIssuer" } } }),
      "keyvault.tls.issuerRef has no name.",
    ],
    [
      "backups without a recovery key",
      vault({ backup: { enabled: true } }),
      "keyvault.backup.recoveryKey.existingConfigMap.name is empty.",
    ],
    [
      "a missing route to the vault's database",
      mergeValues(PRODUCTION, { network: { peers: { keyvaultDatabase: { to: [] } } } }),
      "network.peers.keyvaultDatabase.to is empty.",
    ],
    [
      "a setting that the chart sets",
      vault({ settings: { KEYVAULT_PORT: "1" } }),
      "keyvault.settings has KEYVAULT_PORT, which the chart sets.",
    ],
    [
      "a secret among settings",
      vault({ settings: { KEYVAULT_DATABASE_URL: "postgres://u:hush@h/d" } }),
      "keyvault.settings has KEYVAULT_DATABASE_URL",
    ],
    ["a log without audit heads", vault({ logLevel: "warn" }), "logLevel"],
    ["an invalid interval", vault({ auditHeads: { logSeconds: 0 } }), "logSeconds"],
    ["a malformed serial number", vault({ tls: { revoked: ["nonsense"] } }), "revoked"],
  ])("cannot be rendered with %s", async (_, values, sentence) => {
    const { isGood, out, err } = await template(path, values);
    expect(err).toContain(sentence);
    expect(isGood).toBe(false);
    expect(out + err).not.toContain("hush");
  });
});
