import { randomUUID } from "node:crypto";
import { OPERATOR } from "../../support/kubernetes/policies.ts";
import type { Kubernetes, KubernetesAnswer, KubernetesUser } from "../../support/kubernetes/server.ts";
import { until } from "../../support/process.ts";

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const MERGE_PATCH = "application/merge-patch+json";
const KINDS = ["platforms", "agents", "delegations"];

/** Users of the test's namespace, named after their roles. */
export const PEOPLE = {
  /** May write objects of the three kinds. */
  editor: { name: "ed@example.test" },
  /** May approve for the Platform `shop`. */
  approver: { name: "ann@example.test", uid: "uid-of-ann" },
  /** May write the status of Delegations, and approve for the Platform `other`. */
  stranger: { name: "oz@example.test" },
  /** May edit objects, and approve for `shop`. */
  both: { name: "bo@example.test" },
  wildcard: { name: "wil@example.test" },
  admin: { name: "admin@example.test", group: "system:masters" },
  operator: OPERATOR,
} as const satisfies Record<string, KubernetesUser>;
export type Somebody = keyof typeof PEOPLE;

/** A namespace with a Platform, an Agent and a Delegation with finalizers, and users with roles in it. */
export type AdmissionWorld = {
  namespace: string;
  call(
    who: Somebody | KubernetesUser,
    method: string,
    path: string,
    body?: unknown,
  ): Promise<KubernetesAnswer>;
  path(resource: string, name?: string, subresource?: string): string;
  declare(who: Somebody, name: string, spec?: object): Promise<KubernetesAnswer>;
  /** Writes an approval as `kubectl patch --subresource=status` does. By default, the approval is valid. */
  approve(who: Somebody | KubernetesUser, name: string, changes?: object): Promise<KubernetesAnswer>;
  /** Sends a merge patch of an object or its status. */
  patch(
    who: Somebody | KubernetesUser,
    resource: string,
    name: string,
    body: object,
    subresource?: string,
  ): Promise<KubernetesAnswer>;
  get(
    resource: string,
    name: string,
  ): Promise<Record<string, unknown> & { status?: Record<string, unknown> }>;
};

export async function admissionWorld(kubernetes: Kubernetes): Promise<AdmissionWorld> {
  const namespace = `team-${randomUUID().slice(0, 8)}`;
  await must(kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: namespace } }));
  const userOf = (who: Somebody | KubernetesUser): KubernetesUser =>
    typeof who === "string" ? PEOPLE[who] : who;
  const path: AdmissionWorld["path"] = (resource, name, subresource) =>
    [`/apis/deputize.io/v1alpha1/namespaces/${namespace}/${resource}`, name, subresource]
      .filter((part) => part !== undefined)
      .join("/");
  const call: AdmissionWorld["call"] = (who, method, target, body) =>
    kubernetes.as(userOf(who))(method, target, body, method === "PATCH" ? MERGE_PATCH : "application/json");

  async function role(who: Somebody, rules: object[]): Promise<void> {
    const name = `${who}-${namespace}`;
    await must(
      kubernetes.call("POST", `${RBAC}/namespaces/${namespace}/roles`, { metadata: { name }, rules }),
    );
    await must(
      kubernetes.call("POST", `${RBAC}/namespaces/${namespace}/rolebindings`, {
        metadata: { name },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name },
        subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: PEOPLE[who].name }],
      }),
    );
  }

  const apiGroups = ["deputize.io"];
  const edits = {
    apiGroups,
    resources: KINDS,
    verbs: ["get", "list", "create", "update", "patch", "delete"],
  };
  const writesStatus = { apiGroups, resources: ["delegations/status"], verbs: ["get", "update", "patch"] };
  const approves = (name: string) => ({
    apiGroups,
    resources: ["platforms"],
    verbs: ["approve"],
    resourceNames: [name],
  });
  await role("editor", [edits]);
  await role("approver", [writesStatus, approves("shop")]);
  await role("stranger", [writesStatus, approves("other")]);
  await role("both", [edits, writesStatus, approves("shop")]);
  await role("wildcard", [{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }]);
  await role("operator", [{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }]);
  // Waits only for the last role, because the API server applies roles in order after storing them.
  await until(
    "the roles count",
    async () => (await call("operator", "GET", path("platforms"))).status === 200,
  );

  const declare: AdmissionWorld["declare"] = (who, name, spec = {}) =>
    call(who, "POST", path("delegations"), {
      apiVersion: "deputize.io/v1alpha1",
      kind: "Delegation",
      metadata: { name, finalizers: ["deputize.io/revoke"] },
      spec: {
        platformRef: { name: "shop" },
        agentRef: { name: "bot" },
        scopes: ["data:read", "payments:send"],
        ...spec,
      },
    });

  await must(
    call("editor", "POST", path("platforms"), {
      apiVersion: "deputize.io/v1alpha1",
      kind: "Platform",
      metadata: { name: "shop", finalizers: ["deputize.io/revoke"] },
      spec: {
        displayName: "Shop",
        surfaceType: "agentic_api",
        defaultAllowedScopes: ["data:read", "payments:send"],
      },
    }),
  );
  await must(
    call("editor", "POST", path("agents"), {
      apiVersion: "deputize.io/v1alpha1",
      kind: "Agent",
      metadata: { name: "bot", finalizers: ["deputize.io/revoke"] },
      spec: { platformRef: { name: "shop" }, agentType: "api_agent" },
    }),
  );
  await must(declare("editor", "help"));

  const patch: AdmissionWorld["patch"] = (who, resource, name, body, subresource) =>
    call(who, "PATCH", path(resource, name, subresource), body);

  return {
    namespace,
    call,
    path,
    declare,
    patch,
    approve: (who, name, changes = {}) =>
      patch(
        who,
        "delegations",
        name,
        {
          status: {
            approval: {
              decision: "Approved",
              approvedScopes: ["data:read"],
              approver: { username: userOf(who).name },
              observedGeneration: 1,
              ...changes,
            },
          },
        },
        "status",
      ),
    async get(resource, name) {
      return (await kubernetes.call("GET", path(resource, name))).body as Awaited<
        ReturnType<AdmissionWorld["get"]>
      >;
    },
  };
}

async function must(work: Promise<KubernetesAnswer>): Promise<void> {
  const { status, body } = await work;
  if (status >= 300) throw new Error(`${status} ${String(body.message)}`);
}
