import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiClusterChecks, operatorClusterChecks } from "../../src/doctor/cluster.ts";
import { operatorRights, type Rights } from "../../src/doctor/cluster_rights.ts";
import { DEFAULT_OPERATOR } from "../../src/kubernetes/policies.ts";
import { isOldest, kubernetesBinary } from "../support/kubernetes/binary.ts";
import { installDefinitions } from "../support/kubernetes/definitions.ts";
import { kubeconfigText } from "../support/kubernetes/kubeconfig.ts";
import { installPolicies, policyPath } from "../support/kubernetes/policies.ts";
import { type Kubernetes, startKubernetes } from "../support/kubernetes/server.ts";
import { until } from "../support/process.ts";
import { rowsOf } from "./support.ts";

const START_MS = 20 * 60_000;
const HOME = "deputize-system";
const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const ROLE = `${RBAC}/clusterroles/doctor-operator`;
const binary = await kubernetesBinary();
if (isOldest) console.error("SKIPPED, missing: MutatingAdmissionPolicy in Kubernetes 1.30");
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

describe.skipIf(binary.missing !== undefined)("the checks of a cluster", { timeout: 60_000 }, () => {
  let kubernetes: Kubernetes;
  let folder: string;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    folder = await mkdtemp(join(tmpdir(), "doctor-cluster-"));
    for (const name of [HOME, "shop"]) {
      await must("POST", "/api/v1/namespaces", { metadata: { name } });
    }
    await installDefinitions(kubernetes);
    await installPolicies(kubernetes);
    const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "doctor-operator" };
    const subjects = [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: DEFAULT_OPERATOR }];
    await must("POST", ROLE.slice(0, ROLE.lastIndexOf("/")), {
      metadata: { name: "doctor-operator" },
      rules: [],
    });
    await must("POST", `${RBAC}/clusterrolebindings`, {
      metadata: { name: "doctor-operator" },
      roleRef,
      subjects,
    });
    await writeFile(kubeconfig(), operatorText(kubernetes.adminToken));
  }, START_MS);
  afterAll(async () => {
    await kubernetes?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true });
  });

  const kubeconfig = () => join(folder, "kubeconfig");
  const operatorText = (token: string, url = kubernetes.url) =>
    kubeconfigText({ ...kubernetes, url }, { token, as: DEFAULT_OPERATOR, namespace: HOME });

  async function must(method: string, path: string, body?: unknown, type?: string): Promise<void> {
    const { status, body: answer } = await kubernetes.call(method, path, body, type);
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${String(answer.message)}`);
  }

  /** Gives the operator exactly these rights. */
  async function allow(rights: readonly Rights[]): Promise<void> {
    const rules = rights.map(({ group, resource, subresource, verbs, name }) => ({
      apiGroups: [group],
      resources: [subresource === undefined ? resource : `${resource}/${subresource}`],
      verbs,
      ...(name !== undefined && { resourceNames: [name] }),
    }));
    await must("PATCH", ROLE, { rules }, "application/merge-patch+json");
  }

  const settings = (change: Record<string, string> = {}) => ({ KUBECONFIG: kubeconfig(), ...change });
  const lookWithoutLeader = (change?: Record<string, string>) =>
    rowsOf(operatorClusterChecks(), settings(change), { roles: ["operator"] });
  /** Without a leader, each look would wait until the Lease has expired. */
  const look = (change?: Record<string, string>) => whileLeading(() => lookWithoutLeader(change));
  const all = (change = {}) => operatorRights(change, HOME);

  /** RBAC takes effect with a short delay. */
  async function untilRow(name: string, status: string, change?: Record<string, string>) {
    let rows = await look(change);
    await until(`${name} is ${status}`, async () => {
      rows = await look(change);
      return rows[name]?.status === status;
    });
    return rows;
  }

  const LEASES = `/apis/coordination.k8s.io/v1/namespaces/${HOME}/leases`;
  const LEASE = `${LEASES}/deputize-operator`;
  const MAPS = `/api/v1/namespaces/${HOME}/configmaps`;

  /** Renews the operator's Lease, as a leader does, while `use` runs. */
  async function whileLeading<T>(use: () => Promise<T>): Promise<T> {
    let isLeading = true;
    const body = { metadata: { name: "deputize-operator" }, spec: { holderIdentity: "one" } };
    await kubernetes.call("POST", LEASES, body);
    const renewing = (async () => {
      for (let n = 0; isLeading; n += 1) {
        const spec = { holderIdentity: "one", leaseTransitions: n };
        await must("PATCH", LEASE, { spec }, "application/merge-patch+json");
        await sleep(50);
      }
    })();
    try {
      return await use();
    } finally {
      isLeading = false;
      await renewing;
    }
  }

  test("pass for an operator with all rights in a cluster of this version", async () => {
    await allow(all());
    await must("POST", MAPS, { metadata: { name: "deputize-cluster" }, data: { clusterID: "main" } });
    const rows = await untilRow("cluster rights", "ok");
    expect(Object.entries(rows).map(([name, { status }]) => `${name}: ${status}`)).toEqual([
      "cluster: ok",
      "cluster rights: ok",
      "cluster kinds: ok",
      "cluster secrets: ok",
      "cluster id: ok",
      "operator: ok",
    ]);
  });

  test("name an operator that does not run, another cluster id, and a missing namespace", async () => {
    await allow(all());
    await untilRow("cluster rights", "ok");
    const rows = await lookWithoutLeader({ CLUSTER_ID: "other", WATCH_NAMESPACES: "shop,absent" });
    expect(rows.operator).toMatchObject({
      status: "failed",
      detail: `no operator leads: nobody renews the Lease ${HOME}/deputize-operator`,
    });
    expect(rows["cluster id"]).toMatchObject({
      status: "failed",
      detail: `CLUSTER_ID is other, but the ConfigMap ${HOME}/deputize-cluster records main`,
    });
    expect(rows["cluster secrets"]).toMatchObject({
      status: "failed",
      detail: "the watched namespace absent does not exist",
    });
    await must("DELETE", `${MAPS}/deputize-cluster`);
    expect((await look())["cluster id"]).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("no operator has recorded the cluster id"),
    });
  });

  test("try a Secret in each namespace that the selector matches, and fail if it matches none", async () => {
    await allow(all());
    await untilRow("cluster rights", "ok");
    const rights = await look({ NAMESPACE_SELECTOR: "team=none" });
    expect(rights["cluster rights"]?.detail).toContain("missing rights:\nlist namespaces in all namespaces");
    await allow(operatorRights({ NAMESPACE_SELECTOR: "team=none" }, HOME));
    const none = await untilRow("cluster secrets", "failed", { NAMESPACE_SELECTOR: "team=none" });
    expect(none["cluster secrets"]?.detail).toBe(
      "no namespace has the labels of NAMESPACE_SELECTOR: team=none",
    );
    const shop = await look({ NAMESPACE_SELECTOR: "kubernetes.io/metadata.name in (shop)" });
    expect(shop["cluster secrets"]).toMatchObject({
      status: "ok",
      detail: "a Secret in shop would be stored unchanged",
    });
  });

  test("name each verb that is missing", async () => {
    await allow(
      all().map((rights) =>
        rights.resource === "secrets"
          ? { ...rights, verbs: ["get", "list", "watch", "create", "delete"] }
          : rights,
      ),
    );
    const rows = await untilRow("cluster rights", "failed");
    expect(rows["cluster rights"]?.detail).toBe("missing rights:\npatch secrets in all namespaces");
  });

  test("need rights in the watched namespaces only, and the right to delete only with ENDED_TTL", async () => {
    await allow([]);
    const change = { WATCH_NAMESPACES: "shop", ENDED_TTL: "24h", CLUSTER_ID: "one" };
    const rows = await untilRow("cluster rights", "failed", change);
    expect(rows["cluster rights"]?.detail).toContain("get platforms in shop");
    expect(rows["cluster rights"]?.detail).toContain("and ");
    expect(rows["cluster secrets"]).toMatchObject({
      status: "failed",
      detail: "the API server refuses a Secret in shop",
    });
    const texts = operatorRights({ WATCH_NAMESPACES: ["shop"], ENDED_TTL: "24h", CLUSTER_ID: "one" }, HOME);
    expect(texts.filter(({ verbs }) => verbs.includes("delete")).map(({ resource }) => resource)).toEqual([
      "delegations",
      "secrets",
    ]);
    expect(texts.filter(({ namespace }) => namespace === undefined)).toEqual([]);
  });

  test("name a kind of another version, and a missing kind", async () => {
    await allow(all());
    const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/delegations.deputize.io";
    const { body } = await kubernetes.call("GET", path);
    const versions = structuredClone((body.spec as { versions: Version[] }).versions);
    const properties = versions[0]?.schema.openAPIV3Schema.properties.spec?.properties ?? {};
    const [name = ""] = Object.keys(properties).filter((each) => each === "reason" || each === "note");
    const removed = name === "" ? (Object.keys(properties).at(-1) ?? "") : name;
    delete properties[removed];
    const spec = versions[0]?.schema.openAPIV3Schema.properties.spec;
    if (spec !== undefined) delete spec["x-kubernetes-validations"];
    await must("PATCH", path, { spec: { versions } }, "application/merge-patch+json");
    const rows = await untilRow("cluster kinds", "failed");
    expect(rows["cluster kinds"]?.detail).toContain(`Delegation lacks spec.${removed}`);
    await installDefinitions(kubernetes);
    await untilRow("cluster kinds", "ok");
  });

  test.skipIf(isOldest)("name a policy that removes the operator's annotation from Secrets", async () => {
    await allow(all());
    await installStripping();
    const rows = await untilRow("cluster secrets", "failed");
    expect(rows["cluster secrets"]?.detail).toContain("removes the annotation deputize.io/platform-uid");
    const { status } = await kubernetes.call(
      "GET",
      `/api/v1/namespaces/${HOME}/secrets/deputize-doctor-not-stored`,
    );
    expect(status).toBe(404);
    await must("DELETE", `${MUTATING}policies/strip`);
  });

  const MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingadmission";

  async function installStripping(): Promise<void> {
    const group = "admissionregistration.k8s.io/v1";
    const rule = { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["secrets"] };
    const expression =
      '[JSONPatch{op: "remove", path: "/metadata/annotations/" + jsonpatch.escapeKey("deputize.io/platform-uid")}]';
    await must("POST", `${MUTATING}policies`, {
      apiVersion: group,
      kind: "MutatingAdmissionPolicy",
      metadata: { name: "strip" },
      spec: {
        matchConstraints: { resourceRules: [rule] },
        matchConditions: [{ name: "ours", expression: 'object.type == "deputize.io/platform-credentials"' }],
        failurePolicy: "Fail",
        reinvocationPolicy: "Never",
        mutations: [{ patchType: "JSONPatch", jsonPatch: { expression } }],
      },
    });
    await must("POST", `${MUTATING}policybindings`, {
      apiVersion: group,
      kind: "MutatingAdmissionPolicyBinding",
      metadata: { name: "strip" },
      spec: { policyName: "strip" },
    });
  }

  test("name refused credentials and a closed API server, and skip the rest", async () => {
    const other = join(folder, "other");
    await writeFile(other, operatorText("not-a-token"));
    const refused = await look({ KUBECONFIG: other });
    expect(refused.cluster).toMatchObject({
      status: "failed",
      detail: "the API server does not accept the credentials",
    });
    expect(refused["cluster rights"]).toMatchObject({
      status: "skipped",
      detail: "the cluster does not answer",
    });
    await writeFile(other, operatorText("any", "https://127.0.0.1:1"));
    const closed = await look({ KUBECONFIG: other });
    expect(closed.cluster?.detail).toContain("nothing listens");
    const none = await look({ KUBECONFIG: join(folder, "none") });
    expect(none.cluster).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("cannot be read"),
    });
  });

  describe("apiClusterChecks", () => {
    async function clusters(token = kubernetes.adminToken, as?: string) {
      const [file, config] = [join(folder, "clusters.yaml"), join(folder, "api-kubeconfig")];
      await writeFile(config, kubeconfigText(kubernetes, { token, as }));
      await writeFile(file, JSON.stringify({ clusters: [{ id: "main", kubeconfig: "api-kubeconfig" }] }));
      const rows = await rowsOf(apiClusterChecks(), { CLUSTERS_FILE: file });
      return rows.clusters;
    }

    test("pass with the policies of this version", async () => {
      expect(await clusters()).toMatchObject({ status: "ok", detail: expect.stringContaining("main: ") });
    });

    test("name a missing policy, and a missing right", async () => {
      await must("DELETE", policyPath("ValidatingAdmissionPolicy", "deputize-secrets"));
      expect(await clusters()).toMatchObject({
        status: "failed",
        detail: "main: ValidatingAdmissionPolicy deputize-secrets is missing",
      });
      await installPolicies(kubernetes);
      expect(await clusters(kubernetes.adminToken, "somebody")).toMatchObject({
        status: "failed",
        detail: "main: missing rights:\ncreate tokenreviews in all namespaces",
      });
    });
  });
});

type Version = {
  schema: {
    openAPIV3Schema: {
      properties: Record<string, { properties: Record<string, unknown>; [key: string]: unknown }>;
    };
  };
};
