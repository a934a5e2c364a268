import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { until } from "../../support/process.ts";
import { agent, delegation, OWNER, only, platform } from "../operator_folder.ts";
import { type OperatorCluster, operatorCluster } from "./operator_cluster.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces";
const MERGE_PATCH = "application/merge-patch+json";
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

const write = ["create", "patch", "delete"];
const read = ["get", "list", "watch"];
const kinds = ["platforms", "agents", "delegations"];
const SHOP = [
  { apiGroups: ["deputize.io"], resources: kinds, verbs: [...read, "patch", "delete"] },
  { apiGroups: ["deputize.io"], resources: kinds.map((kind) => `${kind}/status`), verbs: ["patch"] },
  { apiGroups: [""], resources: ["secrets"], verbs: [...read, ...write] },
  { apiGroups: [""], resources: ["namespaces"], verbs: ["get"] },
  { apiGroups: [""], resources: ["events"], verbs: ["create"] },
];
const SYSTEM = [
  { apiGroups: [""], resources: ["configmaps"], verbs: [...read, "create", "patch"] },
  { apiGroups: [""], resources: ["events"], verbs: ["create"] },
  { apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get", "create", "patch"] },
];

describe.skipIf(binary.missing !== undefined)(
  "an operator that watches some namespaces of a cluster",
  { timeout: 60_000 },
  () => {
    let kubernetes: Kubernetes;
    let world: OperatorCluster;

    beforeAll(async () => {
      kubernetes = await startKubernetes(binary.path ?? "");
      await installDefinitions(kubernetes);
    }, BUILD_TIMEOUT_MS);
    afterAll(() => kubernetes?.stop());
    afterEach(() => world.dispose());

    const must = async (...call: Parameters<Kubernetes["call"]>) => {
      const { status, body } = await kubernetes.call(...call);
      if (status >= 300) throw new Error(`${call[1]}: ${status} ${String(body.message)}`);
    };
    const configMaps = () => `/api/v1/namespaces/${world.systemNamespace}/configmaps`;
    const events = async (name: string) => {
      const { body } = await kubernetes.call("GET", `/api/v1/namespaces/${world.systemNamespace}/events`);
      const items = body.items as { reason: string; message: string; involvedObject: { name: string } }[];
      return items.filter(({ involvedObject }) => involvedObject.name === name);
    };

    /** Starts an operator whose user has a role in two namespaces, but no cluster-wide role. */
    async function withRoles(): Promise<void> {
      const id = randomUUID().slice(0, 8);
      const name = `operator-${id}`;
      world = await operatorCluster(kubernetes, {
        id,
        as: name,
        settings: { WATCH_NAMESPACES: [`shop-${id}`], CLUSTER_ID: "watched" },
      });
      for (const [namespace, rules] of [
        [world.namespace, SHOP] as const,
        [world.systemNamespace, SYSTEM] as const,
      ]) {
        await must("POST", `${RBAC}/${namespace}/roles`, { metadata: { name }, rules });
        await must("POST", `${RBAC}/${namespace}/rolebindings`, {
          metadata: { name },
          roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name },
          subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name }],
        });
      }
    }

    test("needs a role only in each watched namespace, and ignores other namespaces", async () => {
      await withRoles();
      const other = `other-${randomUUID().slice(0, 8)}`;
      await must("POST", "/api/v1/namespaces", { metadata: { name: other } });
      await must("POST", `/apis/deputize.io/v1alpha1/namespaces/${other}/platforms`, platform());
      const operator = await world.start();
      await world.apply(platform(), agent(), delegation());
      await world.reaches("Delegation", "bot", "AwaitingApproval");
      expect(only(world.api.platforms).desired.object.namespace).toBe(world.namespace);
      expect(operator.resources.list("Platform")).toHaveLength(1);
      expect(operator.resources.get("Platform", other, "shop")).toBeUndefined();
      const key = (await world.secret("shop-credentials"))?.api_key;
      await world.removeSecret("shop-credentials");
      await until("the Secret is back", async () => {
        const found = (await world.secret("shop-credentials"))?.api_key;
        return found !== undefined && found !== key;
      });
      await world.remove("Delegation", "bot");
      await world.gone("Delegation", "bot");
      const answer = await kubernetes.call(
        "GET",
        `/apis/deputize.io/v1alpha1/namespaces/${other}/platforms/shop`,
      );
      expect(answer.body.metadata).not.toHaveProperty("finalizers");
    });

    test("reads bindings from every ConfigMap with the label, and records a ConfigMap's faults as Events of that ConfigMap", async () => {
      world = await operatorCluster(kubernetes);
      const labels = { "deputize.io/tenants": "true" };
      await must("DELETE", `${configMaps()}/deputize-tenants`);
      await must("POST", configMaps(), {
        metadata: { name: "shop-team", labels },
        data: { [world.namespace]: `accountEmail: ${OWNER}`, bank: "nobody" },
      });
      await must("POST", configMaps(), {
        metadata: { name: "unlabelled" },
        data: { [world.namespace]: "x" },
      });
      await world.start();
      await world.apply(platform());
      await world.reaches("Platform", "shop", "Active");
      await until("the fault is reported", async () => (await events("shop-team")).length > 0);
      expect(await events("shop-team")).toMatchObject([
        { reason: "FaultyBinding", message: expect.stringMatching(/^bank: .*expected object/) },
      ]);
      await must("POST", configMaps(), {
        metadata: { name: "second", labels },
        data: { [world.namespace]: `accountEmail: ${OWNER}` },
      });
      const unbound = await world.reaches("Platform", "shop", "NamespaceNotBound");
      const ready = unbound.status.conditions?.find(({ type }) => type === "Ready");
      expect(ready?.message).toContain("in second and shop-team");
      await until("the fault is reported at both", async () => (await events("second")).length > 0);
      expect((await events("shop-team")).length).toBe(2);
      await must("DELETE", `${configMaps()}/second`);
      await world.reaches("Platform", "shop", "Active");
      const data = { data: { bank: `accountEmail: ${OWNER}` } };
      await must("PATCH", `${configMaps()}/shop-team`, data, MERGE_PATCH);
      await world.apply(platform({ displayName: "New" }));
      await until("the change is sent", () => only(world.api.platforms).desired.name === "New");
      expect((await events("shop-team")).length).toBe(3);
    });

    test("deletes a Delegation some time after it ended, and keeps Delegations in force", async () => {
      const settings = { ENDED_TTL: "2s" };
      world = await operatorCluster(kubernetes, {
        settings,
        sweepTimes: { firstMs: 60_000, everyMs: 60_000, endedEveryMs: 200 },
      });
      await world.start();
      await world.apply(platform(), agent(), delegation());
      await world.apply(delegation({}, { name: "kept", annotations: { "deputize.io/keep": "true" } }));
      await world.apply(delegation({}, { name: "live" }));
      for (const name of ["bot", "kept", "live"]) await world.reaches("Delegation", name, "AwaitingApproval");
      for (const { request_id, desired } of world.api.delegations.values()) {
        if (desired.object.name === "live") world.api.approve(request_id, ["data:read"]);
        if (desired.object.name !== "live") world.api.decide(request_id, "denied", "no");
      }
      await world.reaches("Delegation", "kept", "Denied");
      const denied = await world.reaches("Delegation", "bot", "Denied");
      const condition = denied.status.conditions?.find(({ type }) => type === "Denied");
      await world.gone("Delegation", "bot");
      expect(Date.now() - Date.parse(condition?.lastTransitionTime ?? "")).toBeGreaterThanOrEqual(2000);
      expect(await world.find("Delegation", "kept")).toBeDefined();
      await world.reaches("Delegation", "live", "Active");
    });
  },
);
