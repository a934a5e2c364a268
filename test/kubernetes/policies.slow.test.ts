import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type ClusterClient, createClusterClient } from "../../src/kubernetes/client.ts";
import { checkPolicies, DEFAULT_OPERATOR } from "../../src/kubernetes/policies.ts";
import { adminAccess } from "../operator/cluster/cluster_harness.ts";
import { kubernetesBinary } from "../support/kubernetes/binary.ts";
import { installDefinitions } from "../support/kubernetes/definitions.ts";
import { installPolicies, policyPath } from "../support/kubernetes/policies.ts";
import { type Kubernetes, startKubernetes } from "../support/kubernetes/server.ts";
import { until } from "../support/process.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const POLICY = "ValidatingAdmissionPolicy";
const BINDING = "ValidatingAdmissionPolicyBinding";
const NAMES = [
  "deputize-status",
  "deputize-approval",
  "deputize-objects",
  "deputize-secrets",
  "deputize-definitions",
];
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

describe.skipIf(binary.missing !== undefined)("the check of a cluster's policies", () => {
  let kubernetes: Kubernetes;
  let client: ClusterClient;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    await installDefinitions(kubernetes);
    await installPolicies(kubernetes);
    client = await createClusterClient({ access: adminAccess(kubernetes) });
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await client?.close();
    await kubernetes?.stop();
  });
  afterEach(() => installPolicies(kubernetes));

  const check = () => checkPolicies(client, { operator: DEFAULT_OPERATOR });
  const change = async (kind: string, name: string, patch: object) => {
    const answer = await kubernetes.call(
      "PATCH",
      policyPath(kind, name),
      patch,
      "application/merge-patch+json",
    );
    if (answer.status !== 200) throw new Error(`${answer.status} ${String(answer.body.message)}`);
  };

  test("accepts the policies of this version, with their hash and the time of their last change", async () => {
    const before = await check();
    expect(before.hash).toMatch(/^[0-9a-f]{64}$/);
    expect(Math.abs(Date.now() - (before.since?.getTime() ?? 0))).toBeLessThan(120_000);
    await installPolicies(kubernetes);
    expect(await check()).toEqual(before);
  });

  test.each(
    NAMES.flatMap((name) => [
      [POLICY, name],
      [BINDING, name],
    ]),
  )("reports that %s %s is missing", async (kind, name) => {
    await kubernetes.call("DELETE", policyPath(kind, name));
    expect(await check()).toEqual({ fault: `${kind} ${name} is missing` });
  });

  test.each<[string, string, string, object]>([
    ["a missing rule", POLICY, "deputize-approval", { validations: [{ expression: "true" }] }],
    ["a policy that ignores failures", POLICY, "deputize-status", { failurePolicy: "Ignore" }],
    [
      "a changed condition",
      POLICY,
      "deputize-objects",
      { matchConditions: [{ name: "none", expression: "false" }] },
    ],
    [
      "excluded namespaces",
      POLICY,
      "deputize-approval",
      { matchConstraints: { namespaceSelector: { matchLabels: { strict: "true" } } } },
    ],
    [
      "excluded resources",
      POLICY,
      "deputize-approval",
      {
        matchConstraints: {
          excludeResourceRules: [
            { apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"] },
          ],
        },
      },
    ],
    [
      "an excluded user",
      POLICY,
      "deputize-status",
      {
        matchConditions: [{ name: "not-mallory", expression: "request.userInfo.username != 'mallory'" }],
      },
    ],
    ["a parameter", POLICY, "deputize-status", { paramKind: { apiVersion: "v1", kind: "ConfigMap" } }],
    [
      "a binding with an optional parameter",
      BINDING,
      "deputize-approval",
      { paramRef: { name: "none", namespace: "default", parameterNotFoundAction: "Allow" } },
    ],
    ["a binding that only audits", BINDING, "deputize-approval", { validationActions: ["Audit"] }],
    ["a binding that only warns", BINDING, "deputize-status", { validationActions: ["Warn"] }],
    [
      "a binding for some namespaces only",
      BINDING,
      "deputize-approval",
      { matchResources: { namespaceSelector: { matchLabels: { strict: "true" } } } },
    ],
  ])("reports %s", async (_, kind, name, spec) => {
    await change(kind, name, { spec });
    expect(await check()).toEqual({
      fault: `${kind} ${name} differs from crds/policies.yaml of this version`,
    });
    // Deletes the policy, because server-side apply does not remove fields of a different manager.
    await kubernetes.call("DELETE", policyPath(kind, name));
  });

  test("reports policies for a different operator as altered, with the time of the last change", async () => {
    expect((await checkPolicies(client, { operator: "system:serviceaccount:a:b" })).fault).toContain(
      "ValidatingAdmissionPolicy deputize-status",
    );
    const before = await check();
    await change(POLICY, "deputize-status", { spec: { failurePolicy: "Ignore" } });
    await new Promise((resolve) => setTimeout(resolve, 1100));
    await change(POLICY, "deputize-status", { spec: { failurePolicy: "Fail" } });
    const after = await check();
    expect(after.hash).toBe(before.hash);
    expect(after.since?.getTime()).toBeGreaterThan(before.since?.getTime() ?? 0);
  });

  test("returns the time from which every API server enforces the policies", async () => {
    await kubernetes.call("DELETE", policyPath(BINDING, "deputize-approval"));
    await installPolicies(kubernetes);
    const written = (await kubernetes.call("GET", policyPath(BINDING, "deputize-approval"))).body.metadata;
    const { creationTimestamp } = written as { creationTimestamp: string };
    expect((await check()).since).toEqual(new Date(Date.parse(creationTimestamp) + 10_000));
  });

  test.each(["never", "once"])(
    "ignores changes to labels and annotations, for a policy whose rules were changed %s",
    async (changed) => {
      const name = "deputize-definitions";
      await kubernetes.call("DELETE", policyPath(POLICY, name));
      await installPolicies(kubernetes);
      if (changed === "once") {
        await change(POLICY, name, { spec: { failurePolicy: "Ignore" } });
        await change(POLICY, name, { spec: { failurePolicy: "Fail" } });
      }
      const before = await check();
      await new Promise((resolve) => setTimeout(resolve, 1100));
      const path = `${policyPath(POLICY, name)}?fieldManager=helm`;
      const metadata = { labels: { "helm.sh/chart": "deputize-2" }, annotations: { synced: "now" } };
      const { status } = await kubernetes.call("PATCH", path, { metadata }, "application/merge-patch+json");
      expect(status).toBe(200);
      expect(await check()).toEqual(before);
      await kubernetes.call("DELETE", policyPath(POLICY, name));
    },
  );

  test.each<[string, object, object]>([
    [POLICY, { failurePolicy: "Ignore" }, { failurePolicy: "Fail" }],
    [BINDING, { validationActions: ["Warn"] }, { validationActions: ["Deny", "Audit"] }],
  ])("reports a %s whose change record was erased", async (kind, weak, whole) => {
    const name = "deputize-approval";
    await change(kind, name, { spec: weak });
    await change(kind, name, { spec: whole });
    await change(kind, name, { metadata: { managedFields: [{}] } });
    expect(await check()).toEqual({
      fault: `${kind} ${name} does not record when it was last changed; delete it and apply crds/policies.yaml again`,
    });
    await kubernetes.call("DELETE", policyPath(kind, name));
  });

  test("returns a different revision after a change that was undone, even without a recorded time", async () => {
    const path = policyPath(POLICY, "deputize-approval");
    const before = await check();
    const { managedFields } = (await kubernetes.call("GET", path)).body.metadata as {
      managedFields: object[];
    };
    await change(POLICY, "deputize-approval", { spec: { failurePolicy: "Ignore" } });
    await change(POLICY, "deputize-approval", { spec: { failurePolicy: "Fail" } });
    await change(POLICY, "deputize-approval", { metadata: { managedFields: [{}] } });
    await change(POLICY, "deputize-approval", { metadata: { managedFields } });
    const after = await check();
    expect([after.hash, after.since]).toEqual([before.hash, before.since]);
    expect(after.revision).not.toBe(before.revision);
    await kubernetes.call("DELETE", path);
  });

  test("returns the same revision after the same file was applied again", async () => {
    const before = await check();
    await installPolicies(kubernetes);
    expect((await check()).revision).toBe(before.revision);
  });

  test("accepts an operator with a different name if the file contains this name", async () => {
    const operator = "system:serviceaccount:elsewhere:helper";
    await installPolicies(kubernetes, operator);
    expect((await checkPolicies(client, { operator })).fault).toBeUndefined();
    expect((await check()).fault).toContain("deputize-status differs");
  });

  test("treats the operator's name as plain text", async () => {
    for (const operator of ["$&", "a: b # c", 'oidc:op\'s \\ "name"']) {
      expect((await checkPolicies(client, { operator })).fault).toContain("differs from crds/policies.yaml");
    }
  });

  test("needs only the right to read the policies", async () => {
    const rbac = "/apis/rbac.authorization.k8s.io/v1";
    const apiGroup = "rbac.authorization.k8s.io";
    const name = "reads-policies";
    const asReader = await createClusterClient({ access: adminAccess(kubernetes, name) });
    try {
      await expect(checkPolicies(asReader, { operator: DEFAULT_OPERATOR })).rejects.toThrow("403");
      const resources = ["validatingadmissionpolicies", "validatingadmissionpolicybindings"];
      const rules = [{ apiGroups: ["admissionregistration.k8s.io"], resources, verbs: ["get"] }];
      await kubernetes.call("POST", `${rbac}/clusterroles`, { metadata: { name }, rules });
      await kubernetes.call("POST", `${rbac}/clusterrolebindings`, {
        metadata: { name },
        roleRef: { apiGroup, kind: "ClusterRole", name },
        subjects: [{ apiGroup, kind: "User", name }],
      });
      await until("the role counts", async () =>
        checkPolicies(asReader, { operator: DEFAULT_OPERATOR }).then(
          ({ fault }) => fault === undefined,
          () => false,
        ),
      );
    } finally {
      await asReader.close();
    }
  });

  test("fails if the cluster does not answer", async () => {
    const nowhere = await createClusterClient({
      access: { ...adminAccess(kubernetes), server: "https://127.0.0.1:1" },
      deadlineMs: 500,
    });
    await expect(checkPolicies(nowhere, { operator: DEFAULT_OPERATOR })).rejects.toThrow();
    await nowhere.close();
  });
});
