import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HELMS, helm } from "../support/helm.ts";
import { type ChartCluster, missingCluster, startChartCluster } from "./cluster.ts";
import { CHART, helmWithValues, NAMESPACE, nameOf, objectsOf, RELEASE, type Rendered } from "./render.ts";
import { mergeValues, PRODUCTION, VALUES, type Values } from "./values.ts";

const START_MS = 20 * 60_000;
const programs = await Promise.all(HELMS.map(async (version) => ({ version, ...(await helm(version)) })));
const missing =
  programs.find((program) => program.missing !== undefined)?.missing ?? (await missingCluster());
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

const TRIAL = VALUES.trial ?? {};
const SECRETS = `/api/v1/namespaces/${NAMESPACE}/secrets`;
const CLAIM: Rendered = {
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name: "data-deputize-postgres-0", namespace: NAMESPACE },
  spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
};
const POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/deputize-status";

const RUNBOOK = join(CHART, "../../docs/keyvault_runbook.md");

/** Returns the commands in a text that ask for a PIN, each on one line. */
function commandsOf(text: string): string[] {
  const found = text.match(/^ *\{ cat .*\|\n.*$/gm) ?? [];
  return found.map((lines) => lines.trim().replaceAll(/\s+/g, " "));
}

/** Runs Helm without hooks, because hooks need running pods and this cluster runs none. */
describe.skipIf(missing !== undefined).each(programs)("releases with helm $version", ({ path = "" }) => {
  let cluster: ChartCluster;
  beforeAll(async () => {
    cluster = await startChartCluster();
  }, START_MS);
  afterAll(() => cluster?.stop());

  const run = (command: string, { release = RELEASE, namespace = NAMESPACE } = {}) => {
    const chart = command === "uninstall" ? [] : [CHART];
    const args = [command, release, ...chart, "--namespace", namespace, "--no-hooks"];
    const values = command === "uninstall" ? undefined : TRIAL;
    return helmWithValues(path, args, values, { KUBECONFIG: cluster.kubeconfig });
  };
  const succeeds = async (command: string) => {
    const { isGood, err } = await run(command);
    expect(err.replaceAll(/^.*(level=INFO|I\d{4} ).*$/gm, "").trim()).not.toContain("rror");
    expect(isGood).toBe(true);
  };
  const secrets = async () => {
    const { body } = await cluster.call("GET", SECRETS);
    const items = body.items as { metadata: { name: string; uid: string }; type: string; data: object }[];
    return items
      .filter(({ type }) => type === "Opaque")
      .map(({ metadata: { name, uid }, data }) => ({ name, uid, data }));
  };
  const hooks = async () => {
    const args = ["get", "hooks", RELEASE, "--namespace", NAMESPACE];
    const { out } = await helmWithValues(path, args, undefined, { KUBECONFIG: cluster.kubeconfig });
    return objectsOf(out).map(nameOf);
  };
  const statusOf = async (target: string) => (await cluster.call("GET", target)).status;

  test("print the runbook's command for unsealing the vault", async () => {
    const args = ["install", RELEASE, CHART, "--namespace", NAMESPACE, "--no-hooks", "--dry-run=server"];
    const { out, err } = await helmWithValues(path, args, PRODUCTION, { KUBECONFIG: cluster.kubeconfig });
    const ours = commandsOf(out).map((line) => line.replaceAll("admin.", "ana."));
    expect(ours, err).toHaveLength(1);
    const runbook = commandsOf(await readFile(RUNBOOK, "utf8"));
    expect(ours[0]).toBe(runbook[0]?.replace("exec -i", `exec -i -n ${NAMESPACE}`));
  });

  test("keep a trial's secrets during upgrades, and find them after a reinstallation", async () => {
    await succeeds("install");
    const first = await secrets();
    expect(first.map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        "deputize-trial-database",
        "deputize-trial-postgres",
        "deputize-trial-sealing-key",
      ]),
    );
    await succeeds("upgrade");
    expect(await secrets()).toEqual(first);
    await succeeds("uninstall");
    expect(await secrets()).toEqual(first);
    await succeeds("install");
    expect(await secrets()).toEqual(first);
  });

  test("create a trial's tables with an ordinary Job at the first installation, and with a hook later", async () => {
    const job = `/apis/batch/v1/namespaces/${NAMESPACE}/jobs/deputize-trial-migrate`;
    const postgres = `/apis/apps/v1/namespaces/${NAMESPACE}/statefulsets/deputize-postgres`;
    expect(await statusOf(job)).toBe(200);
    await succeeds("upgrade");
    expect((await cluster.call("GET", job)).body.spec).toHaveProperty("ttlSecondsAfterFinished");
    expect(await hooks()).toContain("Job deputize-migrate");
    // Simulates an installation whose hook failed before any object existed.
    await cluster.call("DELETE", postgres);
    await cluster.call("DELETE", `${job}?propagationPolicy=Background`);
    await succeeds("upgrade");
    expect(await statusOf(job)).toBe(200);
    expect(await hooks()).not.toContain("Job deputize-migrate");
    expect(await statusOf(postgres)).toBe(200);
  });

  test("refuse a second release in the same cluster", async () => {
    const { isGood, err } = await run("install", { release: "second", namespace: "desk" });
    expect(err).toContain(
      "A cluster can have only one release of this chart: ValidatingAdmissionPolicy deputize-status exists",
    );
    expect(err).toContain("belong to the release deputize in namespace deputize-system");
    expect(isGood).toBe(false);
  });

  test("refuse a second release without policies and roles, unless the second release has no operator", async () => {
    const args = ["install", "second", CHART, "--namespace", "apart", "--no-hooks", "--dry-run=server"];
    const second = (operator: Values) => {
      const bare = { admissionPolicies: { enabled: false }, rbac: { roles: false }, operator };
      return helmWithValues(path, args, mergeValues(PRODUCTION, bare), { KUBECONFIG: cluster.kubeconfig });
    };
    expect((await second({})).err).toContain("A cluster can have only one release of this chart");
    expect((await second({ enabled: false })).isGood).toBe(true);
  });

  test("refuse another cluster id than the operator recorded", async () => {
    const args = ["install", RELEASE, CHART, "--namespace", NAMESPACE, "--no-hooks", "--dry-run=server"];
    const maps = `/api/v1/namespaces/${NAMESPACE}/configmaps`;
    const install = (clusterId: string) => {
      const values = mergeValues(PRODUCTION, { operator: { clusterId } });
      return helmWithValues(path, args, values, { KUBECONFIG: cluster.kubeconfig });
    };
    await cluster.call("POST", maps, {
      metadata: { name: "deputize-cluster" },
      data: { clusterID: "prod-eu" },
    });
    try {
      expect((await install("prod-us")).err).toContain(
        "operator.clusterId is prod-us, but the ConfigMap deputize-cluster records prod-eu.",
      );
      const { err } = await install("prod-eu");
      expect(err).not.toContain("records");
    } finally {
      await cluster.call("DELETE", `${maps}/deputize-cluster`);
    }
  });

  test("leave policies, definitions and trial secrets behind when uninstalled, but nothing that runs", async () => {
    await succeeds("uninstall");
    expect(await statusOf(POLICY)).toBe(200);
    expect(
      await statusOf("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/platforms.deputize.io"),
    ).toBe(200);
    expect(await statusOf(`/apis/apps/v1/namespaces/${NAMESPACE}/deployments/deputize-api`)).toBe(404);
    expect(await statusOf("/apis/rbac.authorization.k8s.io/v1/clusterroles/deputize-editor")).toBe(404);
  });

  test("never create new secrets for a trial's existing data", async () => {
    await cluster.create(CLAIM);
    for (const name of ["deputize-trial-postgres", "deputize-trial-sealing-key"]) {
      const { body } = await cluster.call("GET", `${SECRETS}/${name}`);
      await cluster.call("DELETE", `${SECRETS}/${name}`);
      const { isGood, err } = await run("install");
      expect(err).toContain(
        `The trial's data exists (PersistentVolumeClaim data-deputize-postgres-0), but the Secret ${name}`,
      );
      expect(isGood).toBe(false);
      const { metadata, ...rest } = body as Rendered;
      const { labels, annotations, namespace } = metadata;
      const again = { ...rest, metadata: { name, namespace, labels, annotations } } as Rendered;
      await cluster.create(again);
    }
    await succeeds("install");
  });
});
