import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { settingNames, settingRows } from "../../src/dev/chart/values_schema.ts";
import { HELMS, helm, runHelm } from "../support/helm.ts";
import {
  CHART,
  type Container,
  containersOf,
  helmWithValues,
  nameOf,
  type Pod,
  podsOf,
  type Rendered,
  render,
} from "./render.ts";
import { PRODUCTION, VALUES, type Values } from "./values.ts";

const programs = await Promise.all(HELMS.map(async (version) => ({ version, ...(await helm(version)) })));
const missing = programs.find((program) => program.missing !== undefined)?.missing;
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);
const [three = "", four = ""] = programs.map(({ path }) => path);

/** Labels that an upgrade of the chart changes. */
const VERSIONED = ["app.kubernetes.io/version", "helm.sh/chart"];
const SECRETS = "/run/secrets/deputize/";
/** Jobs that write the vault's certificates into Secrets. */
const CERTIFICATES = ["keyvault-certificates", "keyvault-renewal"];
/** Settings whose file may be missing, because the vault may be sealed and init opens no connections. */
const OPTIONAL = /^KEYVAULT_(PIN|TLS_\w+)_FILE$/;
const LISTENING = ["HOST", "HEALTH_HOST", "KEYVAULT_HOST", "KEYVAULT_HEALTH_HOST"];
const ROLES = ["api", "operator", "worker", "migrate"];
const SELECTING = ["Service", "NetworkPolicy", "PodDisruptionBudget"];
/** The pods that restore a vault. Administrators start them, and the chart has only their policy. */
const OF_PEOPLE = "keyvault-init";
const TABLE = Object.entries(VALUES);

describe.skipIf(missing !== undefined).each(programs)("the chart with helm $version", ({ path = "" }) => {
  test.each(TABLE)("passes strict linting with %s", async (_, values) => {
    const { isGood, out, err } = await helmWithValues(path, ["lint", "--strict", CHART], values);
    expect(`${out}${err}`).not.toMatch(/\[(WARNING|ERROR)\]/);
    expect(isGood).toBe(true);
  });

  test("renders the same objects from its package and from its folder", async () => {
    const folder = await mkdtemp(join(tmpdir(), "deputize-package-"));
    try {
      const { isGood, err } = await runHelm(path, ["package", CHART, "--destination", folder]);
      expect(err).toBe("");
      expect(isGood).toBe(true);
      const [name = ""] = await readdir(folder);
      const packaged = await render(path, PRODUCTION, { chart: join(folder, name) });
      expect(packaged).toEqual(await render(path, PRODUCTION));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});

describe.skipIf(missing !== undefined).each(TABLE)("the chart rendered with %s", (_, values: Values) => {
  let kept: Promise<{ install: Rendered[]; upgrade: Rendered[] }> | undefined;
  const rendered = () => {
    kept ??= Promise.all([render(four, values), render(four, values, { isUpgrade: true })]).then(
      ([install, upgrade]) => ({ install, upgrade }),
    );
    return kept;
  };
  const objects = async () => {
    const { install, upgrade } = await rendered();
    return [
      ...install,
      ...upgrade.filter((object) => !install.some((other) => nameOf(other) === nameOf(object))),
    ];
  };
  const pods = async () => podsOf(await objects());
  const containers = async () =>
    (await pods()).flatMap((pod) => containersOf(pod).map((container) => ({ pod, container })));

  test("has the same output in both versions of Helm", async () => {
    const [ours, theirs] = [await render(four, values), await render(three, values)];
    const sorted = (all: Rendered[]) => all.map(withoutRandom).sort((one, other) => (one < other ? -1 : 1));
    expect(sorted(theirs)).toEqual(sorted(ours));
  });

  test("has each object once, in the release's or a watched namespace, with all labels", async () => {
    const { install } = await rendered();
    const names = install.map((object) => `${nameOf(object)} ${object.metadata.namespace ?? ""}`);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
    for (const { metadata, ...object } of await objects()) {
      const where = nameOf({ metadata, ...object } as Rendered);
      expect(metadata.labels, where).toMatchObject({
        "app.kubernetes.io/name": "deputize",
        "app.kubernetes.io/instance": "deputize",
        "app.kubernetes.io/component": expect.stringMatching(/^[a-z-]+$/),
        "app.kubernetes.io/version": expect.any(String),
        "app.kubernetes.io/managed-by": "Helm",
        "app.kubernetes.io/part-of": "deputize",
      });
    }
  });

  test("runs only pods that restricted Pod Security allows, with a read-only root file system", async () => {
    for (const { template, of } of await pods()) {
      expect(template.spec.securityContext, nameOf(of)).toMatchObject({
        runAsNonRoot: true,
        seccompProfile: { type: "RuntimeDefault" },
      });
      for (const name of ["hostNetwork", "hostPID", "hostIPC"]) expect(template.spec[name]).toBeUndefined();
    }
    for (const { pod, container } of await containers()) {
      expect(container.securityContext, `${nameOf(pod.of)} ${container.name}`).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        runAsNonRoot: true,
        capabilities: { drop: ["ALL"] },
      });
      expect(container.resources?.requests).toBeDefined();
      expect(container.resources?.limits).toBeDefined();
    }
  });

  test("selects pods by labels that upgrades never change", async () => {
    const all = await pods();
    for (const { of, template } of all) {
      if (of.kind === "Pod") continue;
      const labels = template.metadata.labels ?? {};
      expect(Object.keys(labels).filter((label) => VERSIONED.includes(label))).toEqual([]);
      if (of.spec.selector !== undefined) expect(labels).toMatchObject(of.spec.selector.matchLabels);
    }
    const select = (await objects()).filter(
      ({ kind, metadata }) =>
        SELECTING.includes(kind) && metadata.labels?.["app.kubernetes.io/component"] !== OF_PEOPLE,
    );
    for (const object of select) {
      const selector: Record<string, string> =
        object.kind === "Service"
          ? object.spec.selector
          : (object.spec.podSelector ?? object.spec.selector).matchLabels;
      const chosen = all.filter(({ template }) =>
        Object.entries(selector).every(([name, value]) => template.metadata.labels?.[name] === value),
      );
      expect(chosen.length, `${nameOf(object)} selects nothing`).toBeGreaterThan(0);
    }
  });

  test("has a container port for each Service and probe", async () => {
    const all = await pods();
    for (const service of (await objects()).filter(({ kind }) => kind === "Service")) {
      const chosen = all.filter(({ template }) =>
        Object.entries(service.spec.selector).every(
          ([name, value]) => template.metadata.labels?.[name] === value,
        ),
      );
      const [pod] = chosen;
      const ports = pod === undefined ? [] : containersOf(pod).flatMap(({ ports = [] }) => ports);
      for (const { targetPort } of service.spec.ports) {
        expect(ports.map(({ name }) => name)).toContain(targetPort);
      }
    }
  });

  test("has network policies in both directions for every pod", async () => {
    const { install, upgrade } = await rendered();
    for (const all of [install, upgrade]) {
      const policies = all.filter(({ kind }) => kind === "NetworkPolicy");
      const isOn = values.network === undefined || policies.length > 0;
      if (!isOn) continue;
      for (const { of, template } of podsOf(all)) {
        const own = policies.filter(({ spec }) =>
          Object.entries(spec.podSelector.matchLabels as Record<string, string>).every(
            ([name, value]) => template.metadata.labels?.[name] === value,
          ),
        );
        expect(
          own.map(({ spec }) => spec.policyTypes),
          nameOf(of),
        ).toContainEqual(["Ingress", "Egress"]);
        expect(
          own.some(({ spec }) => "app.kubernetes.io/component" in spec.podSelector.matchLabels),
          `${nameOf(of)} has no policy of its own`,
        ).toBe(true);
      }
    }
  });

  test("makes every server listen on the address in the values", async () => {
    const { listen = "0.0.0.0" } = (values.network ?? {}) as { listen?: string };
    const hosts = (await containers()).flatMap(({ container: { env = [] } }) =>
      env.filter(({ name }) => /^(\w+_)?HOST$/.test(name)),
    );
    expect(hosts.map(({ name }) => name)).toEqual(expect.arrayContaining(LISTENING));
    expect(new Set(hosts.map(({ value }) => value))).toEqual(new Set([listen]));
  });

  test("passes secrets only as files", async () => {
    for (const { pod, container } of await containers()) {
      const where = `${nameOf(pod.of)} ${container.name}`;
      expect(container.envFrom, where).toBeUndefined();
      expect(JSON.stringify(container.env ?? []), where).not.toContain("secretKeyRef");
    }
  });

  test("has a volume for each mount, and mounts each file that a setting or an argument names", async () => {
    for (const { pod, container } of await containers()) {
      const where = `${nameOf(pod.of)} ${container.name}`;
      const volumes = [...(pod.template.spec.volumes ?? []), ...claimsOf(pod)].map(({ name }) => name);
      expect(volumes, where).toEqual(
        expect.arrayContaining((container.volumeMounts ?? []).map(({ name }) => name)),
      );
      expect(
        namedFiles(container).filter((file) => !hasFile(pod, container, file)),
        where,
      ).toEqual([]);
    }
  });

  test("has secret values only in Secrets, and Secrets only in a trial", async () => {
    const all = await objects();
    const secrets = all.filter(({ kind }) => kind === "Secret");
    const isTrial = (values.trial as { enabled?: boolean } | undefined)?.enabled === true;
    if (!isTrial) expect(secrets.map(nameOf)).toEqual([]);
    const texts = secrets.flatMap(({ data = {} }) =>
      Object.values(data as Record<string, string>).map((value) => Buffer.from(value, "base64").toString()),
    );
    const others = JSON.stringify(all.filter(({ kind }) => kind !== "Secret"));
    for (const text of texts) expect(others).not.toContain(text);
    expect(others).not.toMatch(/\w+:\/\/[^/\s"]+:[^/\s"]+@/);
    for (const secret of secrets) {
      expect(secret.immutable, nameOf(secret)).toBe(true);
      expect(secret.metadata.annotations).toMatchObject({ "helm.sh/resource-policy": "keep" });
    }
  });

  test("lets the API compare the cluster's id with the recorded one, unless no operator runs", async () => {
    const isOperated = (values.operator as { enabled?: boolean } | undefined)?.enabled !== false;
    const apis = (await containers()).filter(({ container }) => container.name === "api");
    expect(apis).toHaveLength(1);
    const found = apis[0]?.container.env?.find(({ name }) => name === "RECORDED_CLUSTER_ID")?.valueFrom;
    const record = { name: "deputize-cluster", key: "clusterID", optional: true };
    expect(found).toEqual(isOperated ? { configMapKeyRef: record } : undefined);
  });

  test("gives each role only settings that docs/settings.md describes for it", async () => {
    const described = await settings();
    for (const { container } of await containers()) {
      const [role = ""] = container.args ?? [];
      if (!ROLES.includes(role) || container.command !== undefined) continue;
      for (const { name } of container.env ?? []) {
        const roles = described.get(name) ?? described.get(name.replace(/_FILE$/, ""));
        expect(roles, `${name} is not in docs/settings.md`).toBeDefined();
        expect(roles, `${name} is not a setting of ${role}`).toContain(role);
      }
    }
  });

  test("gives an API server token only to pods that call the API server", async () => {
    const tokens = (await pods()).filter(
      ({ template }) => template.spec.automountServiceAccountToken !== false,
    );
    const names = new Set(
      tokens.map(({ template }) => template.metadata.labels?.["app.kubernetes.io/component"]),
    );
    const isOperated = (values.operator as { enabled?: boolean } | undefined)?.enabled !== false;
    const others = [...names].filter((name) => !CERTIFICATES.includes(name ?? ""));
    expect(others.sort()).toEqual(isOperated ? ["api", "doctor-api", "doctor-operator", "operator"] : []);
  });
});

/** Omits randomly generated values. */
function withoutRandom(object: Rendered): string {
  return JSON.stringify(object.kind === "Secret" ? { ...object, data: Object.keys(object.data) } : object);
}

function namedFiles({ env = [], args = [] }: Container): string[] {
  const settings = env
    .filter(({ name }) => name.endsWith("_FILE") && !OPTIONAL.test(name))
    .map(({ value = "" }) => value);
  const paths = args.map((argument) => argument.slice(argument.indexOf("=") + 1));
  return [...settings, ...paths].filter((path) => path.startsWith(SECRETS));
}

function hasFile({ template }: Pod, { volumeMounts = [] }: Container, file: string): boolean {
  const mount = volumeMounts.find(({ mountPath }) => file.startsWith(`${mountPath}/`));
  const volume = template.spec.volumes?.find(({ name }) => name === mount?.name);
  if (mount?.readOnly !== true || volume === undefined) return false;
  const path = file.slice(mount.mountPath.length + 1);
  const items: { path: string }[] = volume.secret?.items ?? [];
  const sources: Record<string, { path?: string }>[] = volume.projected?.sources ?? [];
  return (
    items.some((item) => item.path === path) ||
    sources.some(
      ({ serviceAccountToken, configMap }) => serviceAccountToken?.path === path || configMap !== undefined,
    )
  );
}

function claimsOf({ of }: Pod): { name: string }[] {
  const claims: { metadata: { name: string } }[] = of.spec.volumeClaimTemplates ?? [];
  return claims.map(({ metadata }) => metadata);
}

/** Returns the roles that may have each setting, according to docs/settings.md. */
async function settings(): Promise<Map<string, string[]>> {
  const rows = settingRows(await readFile(join(CHART, "../../docs/settings.md"), "utf8"));
  return new Map(
    rows.flatMap(([, names = "", roles = ""]) =>
      settingNames(names).map((name): [string, string[]] => [name, roles.split(", ")]),
    ),
  );
}
