import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ClusterRefused } from "../../../src/kubernetes/cluster_error.ts";
import type { Approval, CommonStatus, Condition, Delegation, Platform } from "../../../src/operator/kinds.ts";
import { SECRET_TYPE } from "../../../src/operator/reconcile/platform_secret.ts";
import type { Resources, Secret } from "../../../src/operator/resources.ts";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { until } from "../../support/process.ts";
import type { ResourcesHarness } from "../describe_resources.ts";
import { adminAccess, clusterHarness, pathOf } from "./cluster_harness.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const MERGE_PATCH = "application/merge-patch+json";
const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

const secret = (api_key: string, namespace = "default"): Omit<Secret, "version"> => ({
  namespace,
  name: "shop-credentials",
  type: SECRET_TYPE,
  labels: {},
  annotations: { note: "secret-note" },
  data: { api_key },
});
const delegation = {
  apiVersion: "deputize.io/v1alpha1",
  kind: "Delegation",
  metadata: { name: "shop-help", namespace: "default" },
  spec: { platformRef: { name: "shop" }, agentRef: { name: "help" }, scopes: ["data:read"] },
};
const platform = {
  apiVersion: "deputize.io/v1alpha1",
  kind: "Platform",
  metadata: { name: "shop", namespace: "default" },
  spec: { displayName: "secret-name", surfaceType: "agentic_api", defaultAllowedScopes: ["data:read"] },
};
const condition = (message: string): Condition => ({
  type: "Ready",
  status: "True",
  reason: "Active",
  message,
  observedGeneration: 1,
  lastTransitionTime: "2026-01-01T00:00:00.000Z",
});

describe.skipIf(binary.missing !== undefined)("writes to a real API server", () => {
  let kubernetes: Kubernetes;
  let harness: ResourcesHarness;
  let resources: Resources;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    await installDefinitions(kubernetes);
  }, BUILD_TIMEOUT_MS);

  afterAll(() => kubernetes?.stop());

  beforeEach(async () => {
    harness = await clusterHarness(kubernetes);
    resources = harness.resources;
    await harness.apply(platform);
    await harness.apply(delegation);
    await resources.start();
  });

  afterEach(() => harness.close());

  const shop = () => resources.get("Platform", "default", "shop") as Platform;
  const help = () => resources.get("Delegation", "default", "shop-help") as Delegation;

  async function create(path: string, object: object): Promise<void> {
    const { status, body } = await kubernetes.call("POST", path, object);
    if (status !== 201) throw new Error(`${path} was refused: ${status} ${String(body.message)}`);
  }

  /** Returns the message of a refused write, and checks that the error contains nothing else. */
  async function refusal(work: Promise<unknown>): Promise<string> {
    const error = await work.then(
      () => new Error("it was not refused"),
      (thrown: Error) => thrown,
    );
    expect(error).toBeInstanceOf(ClusterRefused);
    expect(error.cause).toBeUndefined();
    expect(`${JSON.stringify(error)} ${error.stack}`).not.toMatch(/secret-|c2VjcmV0/);
    expect(`${JSON.stringify(error)} ${error.stack}`).not.toContain(kubernetes.adminToken);
    return error.message;
  }

  test("report a forbidden verb and its resource", async () => {
    const rules = [{ apiGroups: ["*"], resources: ["*"], verbs: ["get", "list", "watch"] }];
    await create(`${RBAC}/clusterroles`, { metadata: { name: "reader" }, rules });
    await create(`${RBAC}/clusterrolebindings`, {
      metadata: { name: "reader" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "reader" },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "reader" }],
    });
    await resources.writeSecret(secret("secret-first"));
    await harness.close();
    const access = adminAccess(kubernetes);
    const { headers, tls } = await access.credentials();
    const credentials = async () => ({ headers: { ...headers, "impersonate-user": "reader" }, tls });
    harness = await clusterHarness(kubernetes, { ...access, credentials });
    resources = harness.resources;
    await harness.apply(platform);
    await harness.putSecret(secret("secret-first"));
    await resources.start();
    const held = (await resources.readSecret("default", "shop-credentials")) as Secret;
    expect(await refusal(resources.writeStatus(shop(), {}))).toBe("patch platforms/status: 403 Forbidden");
    expect(await refusal(resources.setFinalizer(shop(), true))).toBe("patch platforms: 403 Forbidden");
    const other = { ...secret("secret-other"), name: "other" };
    expect(await refusal(resources.writeSecret(other))).toBe("create secrets: 403 Forbidden");
    const second = secret("secret-second");
    expect(await refusal(resources.writeSecret(second, held))).toBe("patch secrets: 403 Forbidden");
    expect(await refusal(resources.removeSecret(held))).toBe("delete secrets: 403 Forbidden");
    resources.recordEvent(shop(), { type: "Normal", reason: "Active", message: "not taken" });
  });

  test("report a used-up quota", async () => {
    const folder = "/api/v1/namespaces/limited/resourcequotas";
    await create("/api/v1/namespaces", { metadata: { name: "limited" } });
    await create(folder, { metadata: { name: "none" }, spec: { hard: { secrets: "0" } } });
    // Sets the quota's object counts, because no controller runs that would set them.
    const status = { hard: { secrets: "0" }, used: { secrets: "0" } };
    await kubernetes.call("PATCH", `${folder}/none/status`, { status }, MERGE_PATCH);
    let message = "";
    await until("the quota is enforced", async () => {
      const given = { ...secret("secret-first", "limited"), name: `try-${performance.now().toFixed(0)}` };
      const write = resources.writeSecret(given);
      message = await write.then(
        () => "",
        () => refusal(write),
      );
      return message !== "";
    });
    expect(message).toBe("create secrets: 403 Forbidden");
  });

  test("report a Secret that is immutable or of a different type", async () => {
    await resources.writeSecret(secret("secret-first"));
    const first = (await resources.readSecret("default", "shop-credentials")) as Secret;
    const opaque = { ...secret("secret-second"), type: "Opaque" };
    expect(await refusal(resources.writeSecret(opaque, first))).toBe("patch secrets: 422 Invalid");
    const path = "/api/v1/namespaces/default/secrets/shop-credentials";
    await kubernetes.call("PATCH", path, { immutable: true }, MERGE_PATCH);
    const held = (await resources.readSecret("default", "shop-credentials")) as Secret;
    const write = resources.writeSecret(secret("secret-second"), held);
    expect(await refusal(write)).toBe("patch secrets: 422 Invalid");
    expect((await resources.readSecret("default", "shop-credentials"))?.data).toEqual(first.data);
  });

  test("report a status that violates the schema", async () => {
    const status: CommonStatus = { conditions: [condition(`secret-${"x".repeat(3000)}`)] };
    const message = await refusal(resources.writeStatus(shop(), status));
    expect(message).toBe("patch platforms/status: 422 Invalid");
    expect(shop().status).toEqual({});
  });

  test("keep a user's approval, whatever the operator writes", async () => {
    const approval: Approval = {
      decision: "Approved",
      approvedScopes: ["data:read"],
      approver: { username: "owner" },
      observedGeneration: 1,
    };
    await resources.writeStatus(help(), { conditions: [condition("waits")] });
    const before = help();
    const path = `${pathOf({ kind: "Delegation", name: "shop-help" })}/status`;
    const { status } = await kubernetes.call("PATCH", path, { status: { approval } }, MERGE_PATCH);
    expect(status).toBe(200);
    // At this point, the operator has not seen the approval.
    await resources.writeStatus(before, { observedGeneration: 1, conditions: [condition("is active")] });
    expect(help().status).toEqual({ observedGeneration: 1, conditions: [condition("is active")], approval });
    await resources.writeStatus(help(), {});
    expect(help().status).toEqual({ approval });
  });

  test("record Events with the right object and time", async () => {
    const start = Math.floor(Date.now() / 1000) * 1000;
    const message = "all is well, ".repeat(100);
    resources.recordEvent(shop(), { type: "Normal", reason: "Active", message: "ready" });
    resources.recordEvent(shop(), { type: "Warning", reason: "Active", message });
    await resources.stop();
    const { body } = await kubernetes.call("GET", "/api/v1/namespaces/default/events");
    const uid = shop().metadata.uid;
    const events = (body.items as { involvedObject: { uid: string }; type: string; lastTimestamp: string }[])
      .filter(({ involvedObject }) => involvedObject.uid === uid)
      .sort((one, other) => one.type.localeCompare(other.type));
    expect(events).toHaveLength(2);
    expect(events[0]).toMatchObject({
      involvedObject: {
        apiVersion: "deputize.io/v1alpha1",
        kind: "Platform",
        name: "shop",
        namespace: "default",
      },
      type: "Normal",
      reason: "Active",
      message: "ready",
      count: 1,
      source: { component: "deputize-operator" },
    });
    expect(events[1]).toMatchObject({ type: "Warning", message: message.slice(0, 1024) });
    const at = Date.parse(events[0]?.lastTimestamp ?? "");
    expect(at).toBeGreaterThanOrEqual(start);
    expect(at).toBeLessThanOrEqual(Date.now());
  });
});
