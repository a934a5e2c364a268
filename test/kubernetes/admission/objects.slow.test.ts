import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { installPolicies } from "../../support/kubernetes/policies.ts";
import { type Kubernetes, type KubernetesAnswer, startKubernetes } from "../../support/kubernetes/server.ts";
import { type AdmissionWorld, admissionWorld, PEOPLE, type Somebody } from "./world.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FINALIZER = "deputize.io/revoke";
const TYPE = "deputize.io/platform-credentials";
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

const refused = (answer: KubernetesAnswer) => [answer.status, String(answer.body.message)];
const forbidden = (text: string) => [403, expect.stringContaining(text)];

describe.skipIf(binary.missing !== undefined)("Deputize's objects in a cluster", () => {
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

  const metadataOf = async (resource: string, name: string) =>
    (await world.get(resource, name)).metadata as { uid: string; finalizers?: string[] };

  describe("the requester of a Delegation", () => {
    test("must be the creator of the Delegation, or absent", async () => {
      expect((await world.declare("editor", "a", { requestedBy: PEOPLE.editor.name })).status).toBe(201);
      expect((await world.declare("editor", "b")).status).toBe(201);
    });

    test.each<Somebody>(["editor", "wildcard", "admin"])(
      "cannot be a user other than the creator, whatever rights %s has",
      async (who) => {
        expect(refused(await world.declare(who, "c", { requestedBy: "somebody@example.test" }))).toEqual(
          forbidden(`spec.requestedBy must be your own user name, ${PEOPLE[who].name}`),
        );
      },
    );

    test("cannot be a user other than the creator, even with server-side apply", async () => {
      const apply = (requestedBy: string) =>
        kubernetes.as(PEOPLE.editor)(
          "PATCH",
          `${world.path("delegations", "applied")}?fieldManager=test`,
          {
            apiVersion: "deputize.io/v1alpha1",
            kind: "Delegation",
            metadata: { name: "applied" },
            spec: {
              platformRef: { name: "shop" },
              agentRef: { name: "bot" },
              scopes: ["data:read"],
              requestedBy,
            },
          },
          "application/apply-patch+yaml",
        );
      expect((await apply(PEOPLE.both.name)).status).toBe(403);
      expect((await apply(PEOPLE.editor.name)).status).toBe(201);
    });

    test("cannot be added, changed or removed later", async () => {
      await world.declare("editor", "a", { requestedBy: PEOPLE.editor.name });
      for (const who of ["editor", "admin"] as const) {
        for (const [name, requestedBy] of [
          ["a", null],
          ["a", PEOPLE.both.name],
          ["help", PEOPLE.editor.name],
        ]) {
          const answer = await world.patch(who, "delegations", String(name), { spec: { requestedBy } });
          expect(answer.status).toBeGreaterThan(400);
        }
      }
    });
  });

  describe("the operator's finalizer", () => {
    test.each(["platforms", "agents", "delegations"])(
      "can be removed from %s only by the operator",
      async (resource) => {
        const name = resource === "platforms" ? "shop" : resource === "agents" ? "bot" : "help";
        const none = { metadata: { finalizers: null } };
        for (const who of ["editor", "wildcard", "admin"] as const) {
          expect(refused(await world.patch(who, resource, name, none))).toEqual(
            forbidden("only the operator removes the finalizer deputize.io/revoke"),
          );
        }
        expect((await metadataOf(resource, name)).finalizers).toEqual([FINALIZER]);
        expect((await world.patch("operator", resource, name, none)).status).toBe(200);
      },
    );

    test.each([
      ["delegations", "help", { revoked: true }],
      ["platforms", "shop", { displayName: "Replaced" }],
    ])("must be in a manifest that replaces one of the %s", async (resource, name, change) => {
      const { metadata, ...live } = await world.get(resource, name);
      const { namespace, resourceVersion } = metadata as Record<string, string>;
      const replace = (extra: object) =>
        world.call("editor", "PUT", world.path(resource, name), {
          ...live,
          metadata: { name, namespace, resourceVersion, ...extra },
          spec: { ...(live.spec as object), ...change },
        });
      const bare = refused(await replace({}));
      expect(bare).toEqual(forbidden("add finalizers: [deputize.io/revoke] to the manifest's metadata"));
      expect(JSON.stringify(bare)).not.toContain("force-delete");
      const { status, body } = await replace({ finalizers: [FINALIZER] });
      expect(status).toBe(200);
      expect(body.spec).toMatchObject(change);
    });

    test("remains during a deletion, while other finalizers can be removed", async () => {
      await world.patch("editor", "delegations", "help", {
        metadata: { finalizers: [FINALIZER, "example.test/other"] },
      });
      await world.call("editor", "DELETE", world.path("delegations", "help"));
      const other = { metadata: { finalizers: ["example.test/other"] } };
      expect(refused(await world.patch("wildcard", "delegations", "help", other))).toEqual(
        forbidden("have the verb force-delete on it"),
      );
      const own = { metadata: { finalizers: [FINALIZER] } };
      expect((await world.patch("editor", "delegations", "help", own)).status).toBe(200);
    });

    test("cannot be removed through the status subresource", async () => {
      const none = { metadata: { finalizers: null, annotations: { any: "thing" } } };
      await world.patch("wildcard", "delegations", "help", none, "status");
      const { finalizers, annotations } = (await world.get("delegations", "help")).metadata as {
        finalizers: string[];
        annotations?: object;
      };
      expect(finalizers).toEqual([FINALIZER]);
      expect(annotations).toBeUndefined();
    });

    test("can be removed by force only with the verb force-delete and an annotation with the object's uid", async () => {
      const { uid } = await metadataOf("delegations", "help");
      const strip = (annotation: string) => ({
        metadata: { finalizers: null, annotations: { "deputize.io/force-delete": annotation } },
      });
      expect((await world.patch("wildcard", "delegations", "help", strip("yes"))).status).toBe(403);
      expect((await world.patch("editor", "delegations", "help", strip(uid))).status).toBe(403);
      expect((await world.patch("wildcard", "delegations", "help", strip(uid))).status).toBe(200);
    });

    test("may be missing from a new object, and anybody can add it", async () => {
      const answer = await world.call("editor", "POST", world.path("delegations"), {
        apiVersion: "deputize.io/v1alpha1",
        kind: "Delegation",
        metadata: { name: "bare" },
        spec: { platformRef: { name: "shop" }, agentRef: { name: "bot" }, scopes: ["data:read"] },
      });
      expect(answer.status).toBe(201);
      const own = { metadata: { finalizers: [FINALIZER] } };
      expect((await world.patch("operator", "delegations", "bare", own)).status).toBe(200);
    });
  });

  describe("the operator", () => {
    test("cannot create objects or change an object's spec", async () => {
      expect(refused(await world.declare("operator", "own"))).toEqual(
        forbidden("the operator creates no objects"),
      );
      for (const [resource, name, spec] of [
        ["delegations", "help", { revoked: true }],
        ["delegations", "help", { suspend: true }],
        ["platforms", "shop", { defaultAllowedScopes: ["data:read"] }],
      ] as const) {
        expect(refused(await world.patch("operator", resource, name, { spec }))).toEqual(
          forbidden("changes nothing of a spec"),
        );
      }
    });

    test("can write only Secrets of Deputize's own type", async () => {
      const folder = `/api/v1/namespaces/${world.namespace}/secrets`;
      const secret = (name: string, type: string) => ({ metadata: { name }, type });
      expect(refused(await world.call("operator", "POST", folder, secret("a", "Opaque")))).toEqual(
        forbidden("the operator writes Secrets of the type"),
      );
      const token = secret("b", "kubernetes.io/service-account-token");
      expect((await world.call("operator", "POST", folder, token)).status).toBeGreaterThan(400);
      await world.call("editor", "POST", folder, secret("c", "Opaque"));
      await world.call("wildcard", "POST", folder, secret("c", "Opaque"));
      for (const method of ["PATCH", "DELETE"] as const) {
        const body = method === "PATCH" ? { data: {} } : undefined;
        const answer = await world.call("operator", method, `${folder}/c`, body);
        expect(refused(answer)).toEqual(forbidden("the operator writes Secrets of the type"));
      }
      expect((await world.call("operator", "POST", folder, secret("d", TYPE))).status).toBe(201);
      const label = { metadata: { labels: { a: "b" } } };
      expect((await world.call("operator", "PATCH", `${folder}/d`, label)).status).toBe(200);
      expect((await world.call("operator", "DELETE", `${folder}/d`)).status).toBe(200);
    });

    test("cannot delete Secrets of other types by deleting a collection", async () => {
      const folder = `/api/v1/namespaces/${world.namespace}/secrets`;
      await world.call("wildcard", "POST", folder, { metadata: { name: "f" }, type: "Opaque" });
      expect((await world.call("operator", "DELETE", folder)).status).toBe(403);
      expect((await world.call("admin", "GET", `${folder}/f`)).status).toBe(200);
    });

    test("has restrictions on Secrets that do not apply to other users", async () => {
      const folder = `/api/v1/namespaces/${world.namespace}/secrets`;
      const answer = await world.call("wildcard", "POST", folder, {
        metadata: { name: "e" },
        type: "Opaque",
      });
      expect(answer.status).toBe(201);
    });
  });

  test("have a trustworthy creation time, unlike the times in their managed fields", async () => {
    await world.approve("approver", "help");
    type Metadata = { creationTimestamp: string; managedFields: { subresource?: string; time: string }[] };
    const read = async () => (await world.get("delegations", "help")).metadata as Metadata;
    const { creationTimestamp, managedFields } = await read();
    const time = "2030-01-01T00:00:00Z";
    const dated = {
      metadata: {
        creationTimestamp: time,
        labels: { any: "change" },
        managedFields: managedFields.map((fields) => ({ ...fields, time })),
      },
    };
    await world.patch("editor", "delegations", "help", dated);
    const after = await read();
    expect(after.creationTimestamp).toBe(creationTimestamp);
    expect(after.managedFields.find(({ subresource }) => subresource === "status")?.time).toBe(time);
    const spec = { platformRef: { name: "shop" }, agentRef: { name: "bot" }, scopes: ["data:read"] };
    const created = await world.call("editor", "POST", world.path("delegations"), {
      apiVersion: "deputize.io/v1alpha1",
      kind: "Delegation",
      metadata: { name: "future", creationTimestamp: time },
      spec,
    });
    expect((created.body.metadata as Metadata).creationTimestamp).not.toBe(time);
  });

  test("cannot refer to another namespace, because no field allows it", async () => {
    const spec = { platformRef: { name: "shop", namespace: "other" } };
    const strict = `${world.path("delegations")}?fieldValidation=Strict`;
    const answer = await world.call("editor", "POST", strict, {
      apiVersion: "deputize.io/v1alpha1",
      kind: "Delegation",
      metadata: { name: "far" },
      spec: { agentRef: { name: "bot" }, scopes: ["data:read"], ...spec },
    });
    expect(refused(answer)).toEqual([
      400,
      expect.stringContaining('unknown field "spec.platformRef.namespace"'),
    ]);
    await world.declare("editor", "far", spec);
    const stored = (await world.get("delegations", "far")).spec as { platformRef: object };
    expect(stored.platformRef).toEqual({ name: "shop" });
  });

  test("survive an unconfirmed deletion of their definition", async () => {
    for (const resource of ["platforms", "agents", "delegations"]) {
      const answer = await kubernetes.call("DELETE", `${DEFINITIONS}/${resource}.deputize.io`);
      expect(refused(answer)).toEqual(forbidden("deleting this definition deletes all its objects"));
    }
    const path = `${DEFINITIONS}/agents.deputize.io`;
    for (const [name, status] of [
      ["true", 403],
      ["platforms.deputize.io", 403],
      ["agents.deputize.io", 200],
    ] as const) {
      const annotations = { "deputize.io/delete-all": name };
      await kubernetes.call("PATCH", path, { metadata: { annotations } }, "application/merge-patch+json");
      expect((await kubernetes.call("DELETE", `${path}?dryRun=All`)).status).toBe(status);
    }
  });
});
