import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { definitions, installDefinitions } from "../../support/kubernetes/definitions.ts";
import { installPolicies } from "../../support/kubernetes/policies.ts";
import { type Kubernetes, type KubernetesObject, startKubernetes } from "../../support/kubernetes/server.ts";
import { until } from "../../support/process.ts";
import { type AdmissionWorld, admissionWorld } from "./world.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const FOLDER = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DELEGATIONS = `${FOLDER}/delegations.deputize.io`;
const MERGE_PATCH = "application/merge-patch+json";
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

type Definition = KubernetesObject & {
  metadata: { deletionTimestamp?: string };
  spec: { versions: [KubernetesObject] };
};

type Rules = { "x-kubernetes-validations"?: object[] };
type Version = KubernetesObject & {
  schema: {
    openAPIV3Schema: Rules & { properties: { status: { properties: { approval: Rules } } } };
  };
};

describe.skipIf(binary.missing !== undefined)("a CustomResourceDefinition", () => {
  let kubernetes: Kubernetes;
  let world: AdmissionWorld;
  let whole: Definition;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    await installDefinitions(kubernetes);
    await installPolicies(kubernetes);
    whole = await read(DELEGATIONS);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => kubernetes?.stop());
  beforeEach(async () => {
    world = await admissionWorld(kubernetes);
  });

  const read = async (path: string) => (await kubernetes.call("GET", path)).body as Definition;

  const setVersions = async (versions: KubernetesObject[]) => {
    const { status } = await kubernetes.call("PATCH", DELEGATIONS, { spec: { versions } }, MERGE_PATCH);
    expect(status).toBe(200);
  };

  /** Changes the definition until the end of the test. */
  const changeDefinition = async (version: KubernetesObject) => {
    onTestFinished(async () => {
      await setVersions(whole.spec.versions);
      await until("the definition is complete again", async () => {
        const answer = await world.approve("approver", "help", { approvedScopes: [] }).catch(() => undefined);
        return answer?.status === 422;
      });
    });
    await setVersions([version]);
  };

  test("causes answers in plain text until it is served", async () => {
    const answer = await kubernetes.call("GET", "/apis/deputize.io/v1alpha1/unknown");
    expect(answer).toEqual({ status: 404, body: { message: "404 page not found" } });
  });

  test("survives an unconfirmed deletion of all definitions", async () => {
    const answer = await kubernetes.call("DELETE", FOLDER);
    expect(answer.status).toBe(403);
    expect(String(answer.body.message)).toContain("deleting this definition deletes all its objects");
    for (const resource of definitions) {
      expect((await read(`${FOLDER}/${resource}.deputize.io`)).metadata.deletionTimestamp).toBeUndefined();
    }
  });

  test("allows no forged approval even without its status subresource", async () => {
    const { subresources: _, ...version } = whole.spec.versions[0];
    await changeDefinition(version);
    const status = {
      certID: "cert-1",
      approval: {
        decision: "Approved",
        approvedScopes: ["data:read"],
        approver: { username: "ann@example.test" },
        observedGeneration: 1,
      },
    };
    // Waits, because the API server drops the status or aborts calls until the new definition is effective.
    await until("a status with the object is refused", async () => {
      const answer = await world.patch("wildcard", "delegations", "help", { status }).catch(() => undefined);
      if (answer?.status === 200) expect(answer.body).not.toHaveProperty("status.approval");
      return answer?.status === 403;
    });
    for (const who of ["editor", "wildcard", "admin", "operator"] as const) {
      const answer = await world.patch(who, "delegations", "help", { status });
      expect([answer.status, String(answer.body.message)]).toEqual([
        403,
        expect.stringContaining("a status is written by the subresource status and not with the object"),
      ]);
    }
    const created = await world.call("wildcard", "POST", world.path("delegations"), {
      apiVersion: "deputize.io/v1alpha1",
      kind: "Delegation",
      metadata: { name: "born-approved" },
      spec: { platformRef: { name: "shop" }, agentRef: { name: "bot" }, scopes: ["data:read"] },
      status,
    });
    expect(created.status).toBe(403);
  });

  test("allows no second decision and no approval without scopes, even without its rules", async () => {
    const version = structuredClone(whole.spec.versions[0]) as Version;
    const { openAPIV3Schema } = version.schema;
    delete openAPIV3Schema["x-kubernetes-validations"];
    delete openAPIV3Schema.properties.status.properties.approval["x-kubernetes-validations"];
    await changeDefinition(version);
    const approve = async (changes: object) => {
      const { status, body } = await world.approve("approver", "help", changes);
      return [status, String(body.message)];
    };
    const forbidden = (text: string) => [403, expect.stringContaining(text)];
    await until("the rules are gone", async () => {
      const answer = await approve({ approvedScopes: [] }).catch(() => undefined);
      return answer?.[0] === 403;
    });
    const none = forbidden("Approved names at least one scope of spec.scopes, Denied none");
    expect(await approve({ approvedScopes: [] })).toEqual(none);
    expect(await approve({ decision: "Denied" })).toEqual(none);
    expect(await approve({})).toEqual([200, "undefined"]);
    const twice = forbidden("a decision is written once");
    expect(await approve({ decision: "Denied", approvedScopes: null })).toEqual(twice);
    expect(await approve({ approvedScopes: ["data:read", "payments:send"] })).toEqual(twice);
    const vanish = await world.patch(
      "approver",
      "delegations",
      "help",
      { status: { approval: null } },
      "status",
    );
    expect([vanish.status, String(vanish.body.message)]).toEqual(twice);
  });

  test("remains during a confirmed deletion until the operator has released every object", async () => {
    const annotations = { "deputize.io/delete-all": "delegations.deputize.io" };
    await kubernetes.call("PATCH", DELEGATIONS, { metadata: { annotations } }, MERGE_PATCH);
    expect((await kubernetes.call("DELETE", DELEGATIONS)).status).toBe(200);
    await until("the objects are being deleted", async () => {
      const { metadata } = (await world.get("delegations", "help")) as { metadata: KubernetesObject };
      return metadata.deletionTimestamp !== undefined;
    });
    const none = { metadata: { finalizers: null } };
    expect((await world.patch("wildcard", "delegations", "help", none)).status).toBe(403);
    expect((await read(DELEGATIONS)).metadata.deletionTimestamp).toBeDefined();
    const { body } = await kubernetes.call("GET", "/apis/deputize.io/v1alpha1/delegations");
    for (const { metadata } of body.items as { metadata: { namespace: string; name: string } }[]) {
      const path = `/apis/deputize.io/v1alpha1/namespaces/${metadata.namespace}/delegations/${metadata.name}`;
      const operator = { name: "system:serviceaccount:deputize-system:deputize-operator" };
      const asOperator = kubernetes.as({ ...operator, group: "system:masters" });
      expect((await asOperator("PATCH", path, none, MERGE_PATCH)).status).toBe(200);
    }
    await until(
      "the definition is gone",
      async () => (await kubernetes.call("GET", DELEGATIONS)).status === 404,
    );
  });
});
