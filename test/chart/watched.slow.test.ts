import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { helm } from "../support/helm.ts";
import { kubernetesBinary } from "../support/kubernetes/binary.ts";
import { kubeconfigText } from "../support/kubernetes/kubeconfig.ts";
import { until } from "../support/process.ts";
import { type ChartCluster, missingCluster, startChartCluster } from "./cluster.ts";
import { CHART, helmIn, RELEASE } from "./render.ts";
import { mergeValues, PRODUCTION, type Values } from "./values.ts";

const START_MS = 20 * 60_000;
const program = await helm("v4");
const missing = program.missing ?? (await missingCluster());
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

const GROUP = "/apis/deputize.io/v1alpha1/namespaces";
const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const watching = (...watchNamespaces: string[]): Values =>
  mergeValues(PRODUCTION, { operator: { watchNamespaces } });
const namespace = (name: string): Values => ({
  extraObjects: [{ apiVersion: "v1", kind: "Namespace", metadata: { name } }],
});
const platform = {
  apiVersion: "deputize.io/v1alpha1",
  kind: "Platform",
  metadata: { name: "shop" },
  spec: { displayName: "Shop", surfaceType: "agentic_api", defaultAllowedScopes: ["data:read"] },
};

/** Runs Helm without hooks, because hooks need running pods and this cluster runs none. */
describe.skipIf(missing !== undefined)("a release and the namespaces that its operator watches", () => {
  let cluster: ChartCluster;
  let folder: string;
  let user: string;
  beforeAll(async () => {
    cluster = await startChartCluster();
    folder = await mkdtemp(join(tmpdir(), "deputize-watched-"));
    user = join(folder, "user");
    await writeFile(user, kubeconfigText(cluster, { token: cluster.adminToken, as: "installer" }));
  }, START_MS);
  afterAll(async () => {
    await cluster?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true });
  });

  const { run, succeeds } = helmIn(program.path ?? "", () => cluster.kubeconfig);
  const tried = (values: Values) => run(["upgrade", "--install", RELEASE, CHART, "--dry-run=server"], values);

  /** Applies an object in a dry run, and returns what kubectl prints. */
  async function applied(object: object, to: string): Promise<string> {
    const { path = "" } = await kubernetesBinary();
    const file = join(folder, "object.json");
    await writeFile(file, JSON.stringify(object));
    const env = { HOME: folder, KUBECONFIG: cluster.kubeconfig };
    const args = ["kubectl", "apply", "-n", to, "-f", file, "--dry-run=server"];
    return new Promise((resolve) => {
      execFile(path, args, { env }, (_, out, err) => resolve(`${out}${err}`));
    });
  }

  test("accept a watched namespace that the same release creates", async () => {
    expect((await tried(watching("shop", "absent"))).err).toContain("the cluster has no such namespace");
    const created = mergeValues(watching("shop", "absent"), namespace("absent"));
    expect(await tried(created)).toMatchObject({ isGood: true });
    const elsewhere = mergeValues(watching("shop", "absent"), { operator: { requireNamespaces: false } });
    expect(await tried(elsewhere)).toMatchObject({ isGood: true });
    await succeeds(
      ["install", RELEASE, CHART, "--no-hooks"],
      mergeValues(watching("shop", "new"), namespace("new")),
    );
    const roles = await cluster.call("GET", `${RBAC}/namespaces/new/roles/deputize-operator`);
    expect(roles.status).toBe(200);
    await succeeds(["uninstall", RELEASE, "--no-hooks"]);
  });

  test("warn about an object that no operator will see", async () => {
    await succeeds(["install", RELEASE, CHART, "--no-hooks"], watching("shop"));
    let printed = "";
    await until("the policy warns", async () => {
      printed = await applied(platform, "desk");
      return printed.includes("Warning");
    });
    expect(printed).toContain(
      "the operator does not watch this namespace, so nothing happens to this object",
    );
    expect(printed).toContain("platform.deputize.io/shop created");
    expect(await applied(platform, "shop")).not.toContain("Warning");
    await succeeds(["uninstall", RELEASE, "--no-hooks"]);
  });

  test("keep watching a namespace while only the operator can let an object there disappear", async () => {
    const platforms = `${GROUP}/desk/platforms`;
    const args = ["--no-hooks"];
    await succeeds(["install", RELEASE, CHART, ...args], watching("shop", "desk"));
    const kept = { ...platform, metadata: { name: "shop", finalizers: ["deputize.io/revoke"] } };
    expect((await cluster.call("POST", platforms, kept)).status).toBe(201);
    const { err, isGood } = await tried(watching("shop"));
    expect(err).toContain("operator.watchNamespaces no longer has desk, where Platform shop still is:");
    expect(isGood).toBe(false);
    const { uid } = (await cluster.call("GET", `${platforms}/shop`)).body.metadata as { uid: string };
    const metadata = { annotations: { "deputize.io/force-delete": uid }, finalizers: null };
    const patch = "application/merge-patch+json";
    expect((await cluster.call("PATCH", `${platforms}/shop`, { metadata }, patch)).status).toBe(200);
    expect(await tried(watching("shop"))).toMatchObject({ isGood: true });
    await cluster.call("DELETE", `${platforms}/shop`);
    await succeeds(["uninstall", RELEASE, ...args]);
  });

  test.each([
    ["all namespaces to a list", { operator: { watchNamespaces: [], allNamespaces: true } }],
    ["a list to no operator", { operator: { watchNamespaces: ["shop", "desk"] } }],
    ["all namespaces to no operator", { operator: { watchNamespaces: [], allNamespaces: true } }],
  ])(
    "refuse the change from %s while an object needs the operator for its deletion",
    async (change, before) => {
      const isOff = change.endsWith("no operator");
      const off = { operator: { enabled: false }, admissionPolicies: { enabled: false } };
      const after = isOff ? mergeValues(PRODUCTION, off) : watching("shop");
      const platforms = `${GROUP}/desk/platforms`;
      await succeeds(["install", RELEASE, CHART, "--no-hooks"], mergeValues(PRODUCTION, before));
      expect(await tried(after)).toMatchObject({ isGood: true });
      const kept = { ...platform, metadata: { name: "shop", finalizers: ["deputize.io/revoke"] } };
      expect((await cluster.call("POST", platforms, kept)).status).toBe(201);
      const { err, isGood } = await tried(after);
      const what = isOff
        ? "operator.enabled=false ends the watch of desk"
        : "operator.watchNamespaces no longer has desk";
      expect(err).toContain(
        `${what}, where Platform shop still is: without the operator nobody could delete it`,
      );
      expect(isGood).toBe(false);
      expect(await tried(mergeValues(PRODUCTION, before))).toMatchObject({ isGood: true });
      const { uid } = (await cluster.call("GET", `${platforms}/shop`)).body.metadata as { uid: string };
      const metadata = { annotations: { "deputize.io/force-delete": uid }, finalizers: null };
      await cluster.call("PATCH", `${platforms}/shop`, { metadata }, "application/merge-patch+json");
      await cluster.call("DELETE", `${platforms}/shop`);
      await succeeds(["uninstall", RELEASE, "--no-hooks"]);
    },
  );

  test("need no right on autoscalers without autoscaling", async () => {
    const { body } = await cluster.call("GET", "/apis");
    const names = (body.groups as { name: string }[]).map(({ name }) => name);
    const apiGroups = ["", ...names.filter((name) => name !== "autoscaling")];
    await cluster.call("POST", `${RBAC}/clusterroles`, {
      metadata: { name: "installer" },
      rules: [{ apiGroups, resources: ["*"], verbs: ["*"] }],
    });
    await cluster.call("POST", `${RBAC}/clusterrolebindings`, {
      metadata: { name: "installer" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "installer" },
      subjects: [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name: "installer" }],
    });
    const limited = helmIn(program.path ?? "", () => user);
    const scaled = (enabled: boolean) => mergeValues(PRODUCTION, { api: { autoscaling: { enabled } } });
    await succeeds(["install", RELEASE, CHART, "--no-hooks"], scaled(false));
    const upgrade = (enabled: boolean) =>
      limited.run(["upgrade", RELEASE, CHART, "--dry-run=server"], scaled(enabled));
    await until("the rights are in force", async () => (await upgrade(false)).isGood);
    expect((await upgrade(true)).err).toContain("horizontalpodautoscalers");
    await succeeds(["uninstall", RELEASE, "--no-hooks"]);
  });
});
