import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { installPolicies } from "../../support/kubernetes/policies.ts";
import { type Kubernetes, type KubernetesAnswer, startKubernetes } from "../../support/kubernetes/server.ts";
import { until } from "../../support/process.ts";
import { type AdmissionWorld, admissionWorld, PEOPLE, type Somebody } from "./world.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

const refused = (answer: KubernetesAnswer) => [answer.status, String(answer.body.message)];
const forbidden = (text: string) => [403, expect.stringContaining(text)];
const invalid = (text: string) => [422, expect.stringContaining(text)];

describe.skipIf(binary.missing !== undefined)("an approval in Kubernetes", () => {
  let kubernetes: Kubernetes;
  let world: AdmissionWorld;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    await installDefinitions(kubernetes);
    await installPolicies(kubernetes);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => kubernetes?.stop());
  beforeEach(async () => {
    world = await admissionWorld(kubernetes);
  });

  const approvalOf = async (name = "help") => (await world.get("delegations", name)).status?.approval;

  test("succeeds with the verb approve on the Platform, for all requested scopes or only some", async () => {
    expect((await world.approve("approver", "help")).status).toBe(200);
    expect(await approvalOf()).toMatchObject({ decision: "Approved", approvedScopes: ["data:read"] });
  });

  test("can state the decision Denied", async () => {
    const denial = { decision: "Denied", approvedScopes: undefined, message: "not this month" };
    expect((await world.approve("approver", "help", denial)).status).toBe(200);
    expect(await approvalOf()).toMatchObject({ decision: "Denied", message: "not this month" });
  });

  test("contains the approver's own uid or no uid", async () => {
    const wrong = { approver: { username: PEOPLE.approver.name, uid: "uid-of-bob" } };
    expect(refused(await world.approve("approver", "help", wrong))).toEqual(
      forbidden("must be your own uid"),
    );
    const right = { approver: { username: PEOPLE.approver.name, uid: PEOPLE.approver.uid } };
    expect((await world.approve("approver", "help", right)).status).toBe(200);
  });

  test("succeeds for system:admin, a person in a small cluster", async () => {
    const admin = { name: "system:admin", group: "system:masters" };
    expect((await world.approve(admin, "help")).status).toBe(200);
  });

  test("succeeds if the approver omitted spec.requestedBy, which only the API checks", async () => {
    await world.declare("both", "own");
    expect((await world.approve("both", "own")).status).toBe(200);
  });

  describe("fails", () => {
    test("with a different user as approver", async () => {
      const spoofed = { approver: { username: PEOPLE.both.name } };
      expect(refused(await world.approve("approver", "help", spoofed))).toEqual(
        forbidden(`must be your own user name, ${PEOPLE.approver.name}`),
      );
      expect(await approvalOf()).toBeUndefined();
    });

    test("for an editor, who may not write a status", async () => {
      expect((await world.approve("editor", "help")).status).toBe(403);
      expect(await approvalOf()).toBeUndefined();
    });

    test("for an approver of a different platform", async () => {
      expect(refused(await world.approve("stranger", "help"))).toEqual(
        forbidden("a role must allow the verb approve on platforms.deputize.io"),
      );
    });

    test("for an approver of a different namespace", async () => {
      const other = await admissionWorld(kubernetes);
      const bindings = `/apis/rbac.authorization.k8s.io/v1/namespaces/${other.namespace}/rolebindings`;
      await kubernetes.call("DELETE", `${bindings}/approver-${other.namespace}`);
      const attributes = { namespace: other.namespace, verb: "approve", group: "deputize.io", name: "shop" };
      const spec = {
        user: PEOPLE.approver.name,
        resourceAttributes: { ...attributes, resource: "platforms" },
      };
      const reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
      await until("the role is gone", async () => {
        const { body } = await kubernetes.call("POST", reviews, { spec });
        return (body.status as { allowed: boolean }).allowed === false;
      });
      expect((await other.approve("approver", "help")).status).toBe(403);
      expect((await other.get("delegations", "help")).status).toBeUndefined();
    });

    test("for a service account, whatever its rights", async () => {
      const account = {
        name: `system:serviceaccount:${world.namespace}:bot`,
        group: "system:masters",
      };
      expect(refused(await world.approve(account, "help"))).toEqual(forbidden("a person approves"));
    });

    test("for a node", async () => {
      const node = { name: "system:node:one", group: "system:masters" };
      expect(refused(await world.approve(node, "help"))).toEqual(forbidden("a person approves"));
    });

    test("for an anonymous user", async () => {
      const nobody = { name: "system:anonymous", group: "system:masters" };
      expect(refused(await world.approve(nobody, "help"))).toEqual(forbidden("a person approves"));
    });

    test("for the operator, even with all rights", async () => {
      const status = { status: { requestID: "r-1", observedGeneration: 1 } };
      expect((await world.patch("operator", "delegations", "help", status, "status")).status).toBe(200);
      expect((await world.approve("operator", "help")).status).toBe(403);
      expect(await approvalOf()).toBeUndefined();
      await world.approve("approver", "help");
      const none = { status: { approval: null } };
      expect((await world.patch("operator", "delegations", "help", none, "status")).status).toBe(422);
      expect(await approvalOf()).toBeDefined();
    });

    test("for an operator that is not a service account", async () => {
      await installPolicies(kubernetes, PEOPLE.both.name);
      try {
        expect(refused(await world.approve("both", "help"))).toEqual(
          forbidden("the operator does not write status.approval"),
        );
        const denial = { decision: "Denied", approvedScopes: undefined };
        expect((await world.approve("both", "help", denial)).status).toBe(403);
      } finally {
        await installPolicies(kubernetes);
      }
      expect(await approvalOf()).toBeUndefined();
    });

    test("for the requester", async () => {
      await world.declare("both", "own", { requestedBy: PEOPLE.both.name });
      expect(refused(await world.approve("both", "own"))).toEqual(forbidden("you asked for this Delegation"));
      expect((await world.approve("approver", "own")).status).toBe(200);
    });

    test("with scopes that were not requested", async () => {
      expect(
        refused(await world.approve("approver", "help", { approvedScopes: ["data:read", "data:share"] })),
      ).toEqual(invalid("approvedScopes must lie within spec.scopes"));
    });

    test("if an approval has no scope, or a denial has scopes", async () => {
      expect((await world.approve("approver", "help", { approvedScopes: [] })).status).toBe(422);
      expect((await world.approve("approver", "help", { decision: "Denied" })).status).toBe(422);
    });

    test("with a generation other than the Delegation's current one", async () => {
      await world.patch("editor", "delegations", "help", { spec: { suspend: true } });
      expect(refused(await world.approve("approver", "help"))).toEqual(
        forbidden("must be the Delegation's metadata.generation"),
      );
      expect((await world.approve("approver", "help", { observedGeneration: 2 })).status).toBe(200);
    });

    test("for a Delegation that is revoked or being deleted", async () => {
      await world.call("editor", "DELETE", world.path("delegations", "help"));
      const leaving = { observedGeneration: 2 };
      expect(refused(await world.approve("approver", "help", leaving))).toEqual(
        forbidden("is being deleted"),
      );
      await world.declare("editor", "over");
      await world.patch("editor", "delegations", "over", { spec: { revoked: true } });
      expect(refused(await world.approve("approver", "over", leaving))).toEqual(forbidden("is revoked"));
    });

    test.each<[string, object]>([
      ["flipped", { decision: "Denied", approvedScopes: null }],
      ["widened", { approvedScopes: ["data:read", "payments:send"] }],
    ])("if the request already has an approval, so the first approval cannot be %s", async (_, changes) => {
      await world.approve("approver", "help");
      const before = await approvalOf();
      for (const who of ["approver", "wildcard", "admin"] as const) {
        const answer = await world.approve(who, "help", changes);
        expect([403, 422]).toContain(answer.status);
      }
      expect(await approvalOf()).toEqual(before);
    });

    test("if the change removes an earlier approval", async () => {
      await world.approve("approver", "help");
      for (const who of ["approver", "wildcard", "admin"] as const) {
        const gone = { status: { approval: null } };
        expect((await world.patch(who, "delegations", "help", gone, "status")).status).toBeGreaterThan(400);
        const all = { status: null };
        expect((await world.patch(who, "delegations", "help", all, "status")).status).toBeGreaterThan(400);
      }
      expect(await approvalOf()).toBeDefined();
    });

    test("with text that contains direction marks or line breaks", async () => {
      for (const message of ["ok \u202etnaw\u202c", "ok\u0000", "fine\u200b"]) {
        expect((await world.approve("approver", "help", { message })).status).toBe(422);
      }
      const approver = { username: "ann@example.test\nOK approved" };
      expect((await world.approve("approver", "help", { approver })).status).toBe(422);
    });
  });

  test("does not apply to a recreated Delegation, and cannot be part of a new Delegation", async () => {
    await world.approve("approver", "help");
    await world.call("operator", "PATCH", world.path("delegations", "help"), {
      metadata: { finalizers: null },
    });
    await world.call("editor", "DELETE", world.path("delegations", "help"));
    const approval = {
      decision: "Approved",
      approvedScopes: ["data:read"],
      approver: { username: PEOPLE.approver.name },
      observedGeneration: 1,
    };
    const created = await world.call("wildcard", "POST", world.path("delegations"), {
      apiVersion: "deputize.io/v1alpha1",
      kind: "Delegation",
      metadata: { name: "help" },
      spec: { platformRef: { name: "shop" }, agentRef: { name: "bot" }, scopes: ["data:read"] },
      status: { approval, certID: "cert-1" },
    });
    expect(created.status).toBe(201);
    expect((await world.get("delegations", "help")).status).toBeUndefined();
  });

  test.each<[string, object]>([
    ["its scopes", { scopes: ["data:read", "payments:send", "data:share"] }],
    ["its platform", { platformRef: { name: "other" } }],
    ["its agent", { agentRef: { name: "other" } }],
    ["its end", { ttl: "87600h" }],
    ["its requester", { requestedBy: "ed@example.test" }],
    ["its constraints", { constraints: [] }],
  ])("applies to exactly the approved content, because nobody can change %s afterwards", async (_, spec) => {
    await world.approve("approver", "help");
    for (const who of ["editor", "wildcard", "admin", "operator"] as const) {
      expect((await world.patch(who, "delegations", "help", { spec })).status).toBeGreaterThan(400);
    }
  });

  test.each<[Somebody, object]>([
    ["approver", { certID: "cert-1" }],
    ["approver", { conditions: [] }],
    ["wildcard", { certID: "cert-1" }],
    ["wildcard", { requestID: "r-2" }],
    ["wildcard", { certStatus: "Active" }],
    ["admin", { certID: "cert-1" }],
    ["admin", { observedGeneration: 7 }],
  ])("remains the only part of a status that %s can write, so writing %j fails", async (who, status) => {
    expect(refused(await world.patch(who, "delegations", "help", { status }, "status"))).toEqual(
      forbidden("only the operator writes the status"),
    );
    expect((await world.get("delegations", "help")).status).toBeUndefined();
  });

  test.each<Somebody>(["approver", "wildcard", "admin"])(
    "does not let %s remove anything from a status",
    async (who) => {
      const status = { certID: "cert-1", certStatus: "Active" };
      await world.patch("operator", "delegations", "help", { status }, "status");
      for (const change of [{ certID: null }, { certStatus: null }, null]) {
        const answer = await world.patch(who, "delegations", "help", { status: change }, "status");
        expect(refused(answer)).toEqual(forbidden("only the operator writes the status"));
      }
      expect((await world.get("delegations", "help")).status).toEqual(status);
    },
  );

  test("does not let the approver write the status of a Platform or an Agent", async () => {
    for (const [resource, name] of [
      ["platforms", "shop"],
      ["agents", "bot"],
    ] as const) {
      const status = { conditions: [] };
      expect(refused(await world.patch("admin", resource, name, { status }, "status"))).toEqual(
        forbidden("only the operator writes the status"),
      );
      const own = { observedGeneration: 1 };
      expect((await world.patch("operator", resource, name, { status: own }, "status")).status).toBe(200);
    }
  });
});
