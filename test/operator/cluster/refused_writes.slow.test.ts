import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { until } from "../../support/process.ts";
import { only, platform } from "../operator_folder.ts";
import { type OperatorCluster, operatorCluster } from "./operator_cluster.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const MERGE_PATCH = "application/merge-patch+json";
const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const ALL = ["get", "list", "watch", "create", "patch", "delete"];
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

describe.skipIf(binary.missing !== undefined)("a write that the cluster refuses", () => {
  let kubernetes: Kubernetes;
  let world: OperatorCluster;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    await installDefinitions(kubernetes);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => kubernetes?.stop());
  afterEach(() => world.dispose());

  /** Creates a user with all rights of the operator, except these verbs on these resources. */
  async function userWithout(name: string, verbs: string[], resources: string[]): Promise<string> {
    const kinds = ["platforms", "agents", "delegations"];
    const ofGroup = kinds.flatMap((kind) => [kind, `${kind}/status`]);
    const others = ["secrets", "events", "configmaps", "namespaces", "leases"];
    const rules = [...ofGroup, ...others].map((resource) => ({
      apiGroups: ["", "deputize.io", "coordination.k8s.io"],
      resources: [resource],
      verbs: resources.includes(resource) ? ALL.filter((verb) => !verbs.includes(verb)) : ALL,
    }));
    await kubernetes.call("POST", `${RBAC}/clusterroles`, { metadata: { name }, rules });
    await kubernetes.call("POST", `${RBAC}/clusterrolebindings`, {
      metadata: { name },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name }],
    });
    return name;
  }
  const allow = (name: string) =>
    kubernetes.call(
      "PATCH",
      `${RBAC}/clusterroles/${name}`,
      { rules: [{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }] },
      MERGE_PATCH,
    );
  const ready = async () => {
    const object = await world.reaches("Platform", "shop", "ClusterRefused");
    return object.status.conditions?.find(({ type }) => type === "Ready")?.message;
  };

  test("appears in the object's status while the operator's role lacks a verb", {
    timeout: 60_000,
  }, async () => {
    world = await operatorCluster(kubernetes, {
      as: await userWithout("no-secrets", ["create"], ["secrets"]),
    });
    await world.start();
    await world.apply(platform());
    expect(await ready()).toBe(
      "The cluster refuses to create secrets: 403 Forbidden. The operator's role or an admission policy does not allow it",
    );
    const registered = only(world.api.platforms);
    expect(registered).toMatchObject({ undelivered: true, retired: [] });
    await allow("no-secrets");
    await world.reaches("Platform", "shop", "Active", 40_000);
    expect((await world.secret("shop-credentials"))?.api_key).toBe(registered.api_key);
  });

  test("appears in the object's status with the name of the used-up quota", async () => {
    world = await operatorCluster(kubernetes);
    const quotas = `/api/v1/namespaces/${world.namespace}/resourcequotas`;
    await kubernetes.call("POST", quotas, { metadata: { name: "few" }, spec: { hard: { secrets: "0" } } });
    // Sets the quota's object counts, because no controller runs that would set them.
    const status = { hard: { secrets: "0" }, used: { secrets: "0" } };
    await kubernetes.call("PATCH", `${quotas}/few/status`, { status }, MERGE_PATCH);
    await until("the quota is enforced", async () => {
      const probe = { metadata: { generateName: "probe-" } };
      const path = `/api/v1/namespaces/${world.namespace}/secrets?dryRun=All`;
      return (await kubernetes.call("POST", path, probe)).status === 403;
    });
    await world.start();
    await world.apply(platform());
    expect(await ready()).toContain("The quota few is used up: raise it");
  });

  test("appears in the object's status if the Secret is immutable", async () => {
    world = await operatorCluster(kubernetes);
    await world.start();
    await world.apply(platform());
    await world.reaches("Platform", "shop", "Active");
    const path = `/api/v1/namespaces/${world.namespace}/secrets/shop-credentials`;
    await kubernetes.call("PATCH", path, { immutable: true }, MERGE_PATCH);
    world.config.API_URL = "https://other.example.test";
    await world.start();
    await world.operators()[0]?.stop();
    expect(await ready()).toContain("The cluster refuses to patch secrets: 422 Invalid");
  });

  test("appears in the object's status while an admission webhook of somebody else does not answer", async () => {
    world = await operatorCluster(kubernetes);
    await world.start();
    await world.apply(platform());
    await world.reaches("Platform", "shop", "Active");
    const hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    const name = `foreign-${world.namespace}`;
    await kubernetes.call("POST", hooks, {
      metadata: { name },
      webhooks: [
        {
          name: "foreign.example.test",
          clientConfig: { url: "https://127.0.0.1:1/" },
          rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["secrets"] }],
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": world.namespace } },
          failurePolicy: "Fail",
          sideEffects: "None",
          admissionReviewVersions: ["v1"],
        },
      ],
    });
    try {
      await until("the webhook blocks Secrets", async () => {
        const path = `/api/v1/namespaces/${world.namespace}/secrets?dryRun=All`;
        return (await kubernetes.call("POST", path, { metadata: { name: "probe" } })).status === 500;
      });
      await world.removeSecret("shop-credentials");
      expect(await ready()).toContain("The cluster does not create secrets: 500 InternalError");
    } finally {
      await kubernetes.call("DELETE", `${hooks}/${name}`);
    }
    await world.reaches("Platform", "shop", "Active", 40_000);
    expect((await world.secret("shop-credentials"))?.api_key).toBe(only(world.api.platforms).api_key);
  });

  test("appears in an Event if the operator may not write the status either", async () => {
    const as = await userWithout("no-status", ["patch"], ["platforms/status"]);
    world = await operatorCluster(kubernetes, { as });
    await world.start();
    await world.apply(platform());
    await until("the Event exists", async () =>
      (await world.events(world.namespace)).includes("ClusterRefused"),
    );
  });
});
