import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { installPolicies, OPERATOR } from "../../support/kubernetes/policies.ts";
import {
  type Kubernetes,
  type KubernetesObject,
  type KubernetesTokens,
  startKubernetes,
} from "../../support/kubernetes/server.ts";
import { type AdmissionWorld, admissionWorld, PEOPLE } from "./world.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const MERGE = "application/merge-patch+json";
const TOKENS = {
  "token-of-ann": PEOPLE.approver,
  "token-of-wil": PEOPLE.wildcard,
  "token-of-ivy": { name: "ivy@example.test" },
  "token-of-sam": { name: "sam@example.test" },
} as const satisfies KubernetesTokens;
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

const approvalBy = (username: string, uid?: string) => ({
  status: {
    approval: {
      decision: "Approved",
      approvedScopes: ["data:read"],
      approver: { username, ...(uid !== undefined && { uid }) },
      observedGeneration: 1,
    },
  },
});

type AuditLine = KubernetesObject & {
  user: { username: string };
  impersonatedUser?: { username: string };
  verb: string;
  objectRef: { namespace: string; subresource?: string };
  annotations: Record<string, string>;
};

describe.skipIf(binary.missing !== undefined)("users with their own tokens", () => {
  let kubernetes: Kubernetes;
  let world: AdmissionWorld;
  let statusPath: string;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "", TOKENS);
    await installDefinitions(kubernetes);
    await installPolicies(kubernetes);
    await allow("clusterroles", "impersonator", TOKENS["token-of-ivy"].name, {
      apiGroups: [""],
      resources: ["users"],
      verbs: ["impersonate"],
      resourceNames: [PEOPLE.approver.name],
    });
    await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: "deputize-system" } });
    const account = { metadata: { name: "deputize-operator" } };
    await kubernetes.call("POST", "/api/v1/namespaces/deputize-system/serviceaccounts", account);
    const all = { apiGroups: ["*"], resources: ["*"], verbs: ["*"] };
    await allow("namespaces/deputize-system/roles", "all", TOKENS["token-of-sam"].name, all);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => kubernetes?.stop());
  beforeEach(async () => {
    world = await admissionWorld(kubernetes);
    statusPath = world.path("delegations", "help", "status");
  });

  async function allow(folder: string, name: string, user: string, rule: object): Promise<void> {
    const kind = folder === "clusterroles" ? "ClusterRole" : "Role";
    const apiGroup = "rbac.authorization.k8s.io";
    for (const [path, body] of [
      [folder, { rules: [rule] }],
      [
        folder.replace(/roles$/, "rolebindings"),
        { roleRef: { apiGroup, kind, name }, subjects: [{ apiGroup, kind: "User", name: user }] },
      ],
    ] as const) {
      const { status, body: answer } = await kubernetes.call("POST", `${RBAC}/${path}`, {
        metadata: { name },
        ...body,
      });
      if (status !== 201) throw new Error(`${status} ${String(answer.message)}`);
    }
  }

  const approval = async () => (await world.get("delegations", "help")).status?.approval;
  /** Entries appear in the audit log after the response, so use `expect.poll`. */
  const audited = async (user: string) =>
    ((await kubernetes.audited()) as AuditLine[]).filter(
      (line) => line.user.username === user && line.objectRef.namespace === world.namespace,
    );

  test("can approve, if the approval states the uid that the cluster reports for them", async () => {
    const ann = kubernetes.withToken("token-of-ann");
    const other = await ann("PATCH", statusPath, approvalBy(PEOPLE.approver.name, "uid-of-bob"), MERGE);
    expect(other.status).toBe(403);
    const own = approvalBy(PEOPLE.approver.name, PEOPLE.approver.uid);
    expect((await ann("PATCH", statusPath, own, MERGE)).status).toBe(200);
  });

  test("cannot be replaced as approvers by a service account, even one with all rights", async () => {
    const folder = `/api/v1/namespaces/${world.namespace}/serviceaccounts`;
    await kubernetes.call("POST", folder, { metadata: { name: "robot" } });
    const name = `system:serviceaccount:${world.namespace}:robot`;
    const all = { apiGroups: ["*"], resources: ["*"], verbs: ["*"] };
    await allow(`namespaces/${world.namespace}/roles`, "robot", name, all);
    const issued = await kubernetes.call("POST", `${folder}/robot/token`, { spec: {} });
    const { token } = issued.body.status as { token: string };
    const answer = await kubernetes.withToken(token)("PATCH", statusPath, approvalBy(name), MERGE);
    expect([answer.status, String(answer.body.message)]).toEqual([
      403,
      expect.stringContaining("a person approves"),
    ]);
  });

  describe("when they impersonate other users", () => {
    test("need a separate right, which all rights in a namespace do not include", async () => {
      const asAnn = kubernetes.withToken("token-of-wil", { name: PEOPLE.approver.name });
      const answer = await asAnn("PATCH", statusPath, approvalBy(PEOPLE.approver.name), MERGE);
      expect([answer.status, String(answer.body.message)]).toEqual([
        403,
        expect.stringContaining("cannot impersonate"),
      ]);
      expect(await approval()).toBeUndefined();
    });

    test("approve as the impersonated approver if permitted, and the audit log names both users", async () => {
      const asAnn = kubernetes.withToken("token-of-ivy", { name: PEOPLE.approver.name });
      expect((await asAnn("PATCH", statusPath, approvalBy(PEOPLE.approver.name), MERGE)).status).toBe(200);
      await expect
        .poll(() => audited(TOKENS["token-of-ivy"].name))
        .toContainEqual(
          expect.objectContaining({
            impersonatedUser: expect.objectContaining({ username: PEOPLE.approver.name }),
            objectRef: expect.objectContaining({ subresource: "status" }),
          }),
        );
    });

    test("do not get the impersonated user's uid", async () => {
      const { name, uid } = PEOPLE.approver;
      const asAnn = kubernetes.withToken("token-of-ivy", { name });
      expect((await asAnn("PATCH", statusPath, approvalBy(name, uid), MERGE)).status).toBe(403);
      const withUid = kubernetes.withToken("token-of-ivy", { name, uid });
      expect((await withUid("PATCH", statusPath, approvalBy(name, uid), MERGE)).status).toBe(403);
      expect(await approval()).toBeUndefined();
    });

    test("can impersonate the operator with all rights in the operator's namespace, but cannot approve as the operator", async () => {
      const asOperator = kubernetes.withToken("token-of-sam", OPERATOR);
      const status = { status: { certID: "forged" } };
      expect((await asOperator("PATCH", statusPath, status, MERGE)).status).toBe(200);
      const answer = await asOperator("PATCH", statusPath, approvalBy(OPERATOR.name), MERGE);
      expect(answer.status).toBe(403);
      expect(await approval()).toBeUndefined();
    });

    test("can impersonate the operator with the role edit or admin in the operator's namespace", async () => {
      const { rules } = (await kubernetes.call("GET", `${RBAC}/clusterroles/system:aggregate-to-edit`)).body;
      for (const [resource, verb] of [
        ["serviceaccounts", "impersonate"],
        ["serviceaccounts/token", "create"],
      ]) {
        expect(rules).toContainEqual(
          expect.objectContaining({
            resources: expect.arrayContaining([resource]),
            verbs: expect.arrayContaining([verb]),
          }),
        );
      }
    });

    test("cannot impersonate the operator with all rights in only a different namespace", async () => {
      const asOperator = kubernetes.withToken("token-of-wil", OPERATOR);
      const status = { status: { certID: "forged" } };
      expect((await asOperator("PATCH", statusPath, status, MERGE)).status).toBe(403);
    });
  });

  describe("in the audit log", () => {
    test("appear when they remove the finalizer by force", async () => {
      const { metadata } = (await world.get("delegations", "help")) as { metadata: { uid: string } };
      const annotations = { "deputize.io/force-delete": metadata.uid };
      const wil = kubernetes.withToken("token-of-wil");
      const path = world.path("delegations", "help");
      const forced = await wil("PATCH", path, { metadata: { finalizers: null, annotations } }, MERGE);
      expect(forced.status).toBe(200);
      const notes = async () => (await audited(PEOPLE.wildcard.name)).map(({ annotations: of }) => of);
      await expect.poll(notes).toContainEqual(
        expect.objectContaining({
          "deputize-objects/forced-delete": "the authority of the object goes on",
        }),
      );
    });

    test("appear when a policy refuses their call, together with the policy's message", async () => {
      const wil = kubernetes.withToken("token-of-wil");
      await wil("PATCH", statusPath, { status: { certID: "forged" } }, MERGE);
      const failures = async () =>
        (await audited(PEOPLE.wildcard.name)).map(
          ({ annotations: of }) => of["validation.policy.admission.k8s.io/validation_failure"],
        );
      await expect
        .poll(failures)
        .toContainEqual(expect.stringContaining("only the operator writes the status"));
    });
  });
});
