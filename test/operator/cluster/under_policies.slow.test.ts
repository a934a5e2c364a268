import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { installPolicies, OPERATOR } from "../../support/kubernetes/policies.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { until } from "../../support/process.ts";
import { agent, delegation, only, platform } from "../operator_folder.ts";
import { type OperatorCluster, operatorCluster } from "./operator_cluster.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const MERGE_PATCH = "application/merge-patch+json";
const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const KINDS = ["platforms", "agents", "delegations"];
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

/** Exactly the rights that the operator needs. */
const RULES = [
  { apiGroups: ["deputize.io"], resources: KINDS, verbs: ["get", "list", "watch", "patch"] },
  { apiGroups: ["deputize.io"], resources: KINDS.map((kind) => `${kind}/status`), verbs: ["patch"] },
  {
    apiGroups: [""],
    resources: ["secrets"],
    verbs: ["get", "list", "watch", "create", "patch", "delete"],
  },
  { apiGroups: [""], resources: ["configmaps"], verbs: ["get", "list", "watch", "create", "patch"] },
  { apiGroups: [""], resources: ["namespaces"], verbs: ["get"] },
  { apiGroups: [""], resources: ["events"], verbs: ["create", "patch"] },
  { apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get", "create", "patch"] },
];

describe.skipIf(binary.missing !== undefined)("an operator under the admission policies", () => {
  let kubernetes: Kubernetes;
  let world: OperatorCluster;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    await installDefinitions(kubernetes);
    await installPolicies(kubernetes);
    const name = "deputize-operator";
    await kubernetes.call("POST", `${RBAC}/clusterroles`, { metadata: { name }, rules: RULES });
    await kubernetes.call("POST", `${RBAC}/clusterrolebindings`, {
      metadata: { name },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
      subjects: [{ kind: "ServiceAccount", namespace: "deputize-system", name }],
    });
  }, BUILD_TIMEOUT_MS);
  afterAll(() => kubernetes?.stop());
  beforeEach(async () => {
    world = await operatorCluster(kubernetes, { as: OPERATOR.name });
    await world.start();
    await world.apply(platform(), agent(), delegation());
  });
  afterEach(() => world.dispose());

  const pathOf = (resource: string, name: string) =>
    `/apis/deputize.io/v1alpha1/namespaces/${world.namespace}/${resource}/${name}`;

  test("reconciles and deletes objects of every kind with exactly the rights of its role", async () => {
    const waiting = await world.reaches("Delegation", "bot", "AwaitingApproval");
    const { requestID } = waiting.status as { requestID: string };
    world.api.approve(requestID, ["data:read"]);
    const active = await world.reaches("Delegation", "bot", "Active");
    expect(active.status).toMatchObject({ approvedScope: ["data:read"], certStatus: "Active" });
    expect((await world.secret("shop-credentials"))?.api_key).toBe(only(world.api.platforms).api_key);

    const revoked = { spec: { revoked: true } };
    await kubernetes.call("PATCH", pathOf("delegations", "bot"), revoked, MERGE_PATCH);
    await world.reaches("Delegation", "bot", "Revoked");
    for (const kind of ["Delegation", "Agent", "Platform"] as const) {
      const name = kind === "Platform" ? "shop" : "bot";
      await world.remove(kind, name);
      await world.gone(kind, name);
    }
  });

  test("revokes a deleted Delegation, and moves a Secret to its new name", async () => {
    const waiting = await world.reaches("Delegation", "bot", "AwaitingApproval");
    const { requestID } = waiting.status as { requestID: string };
    world.api.approve(requestID, ["data:read"]);
    await world.reaches("Delegation", "bot", "Active");
    await world.remove("Delegation", "bot");
    await world.gone("Delegation", "bot");
    expect(only(world.api.delegations).status).toBe("revoked");

    const moved = { spec: { credentialsSecretName: "elsewhere" } };
    await kubernetes.call("PATCH", pathOf("platforms", "shop"), moved, MERGE_PATCH);
    await until("the Secret is moved", async () => {
      const [before, after] = [await world.secret("shop-credentials"), await world.secret("elsewhere")];
      return before === undefined && after !== undefined;
    });
    await world.removeSecret("elsewhere");
    await until("the Secret exists again", async () => (await world.secret("elsewhere")) !== undefined);
  });

  test("keeps a user's approval while it writes the rest of the status", async () => {
    await world.reaches("Delegation", "bot", "AwaitingApproval");
    const approval = {
      decision: "Approved",
      approvedScopes: ["data:read"],
      approver: { username: "ann@example.test" },
      observedGeneration: 1,
    };
    const asAnn = kubernetes.as({ name: "ann@example.test", group: "system:masters" });
    const path = `${pathOf("delegations", "bot")}/status`;
    expect((await asAnn("PATCH", path, { status: { approval } }, MERGE_PATCH)).status).toBe(200);
    const revoked = { spec: { revoked: true } };
    await kubernetes.call("PATCH", pathOf("delegations", "bot"), revoked, MERGE_PATCH);
    const ended = await world.reaches("Delegation", "bot", "Revoked");
    expect(ended.status).toMatchObject({ approval });
  });
});
