import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { clusterId, namespaceName, namespaceUid } from "../input/cluster_fields.ts";
import { scopeList } from "../input/platform_fields.ts";
import { isoTime } from "../input/schemas.ts";
import { type Route, route } from "../route.ts";
import { acceptBinding, endBinding, listBindings, type ShownBinding } from "./namespace_binding.ts";

type Deps = { db: Database; clock: Clock };

const path = "/v1/service/namespace-bindings";
const memberPath = `${path}/{cluster}/{namespace}`;
const params = z.object({ cluster: clusterId, namespace: namespaceName });

const shown = z.object({
  cluster: z.string(),
  namespace: z.string(),
  namespace_uid: z.string().nullable(),
  status: z.enum(["accepted", "asking"]),
  ceiling: z
    .array(z.string())
    .nullable()
    .describe("The scopes that its platforms may allow at most; null for no limit"),
  four_eyes: z.boolean(),
  asked_at: isoTime,
  accepted_at: isoTime.nullable(),
  accepted_by: z.string().nullable().describe("The last owner who accepted it, by e-mail address"),
});

/** A binding, as the API returns it. */
export type NamespaceBindingAnswer = z.infer<typeof shown>;

/** Returns the routes for namespaces that act for an account. */
export function namespaceRoutes(deps: Deps): Route[] {
  return [listRoute(deps), acceptRoute(deps), endRoute(deps)];
}

function listRoute(deps: Deps): Route {
  return route({
    id: "list_namespace_bindings",
    method: "GET",
    path,
    summary: "List the namespaces of clusters that act for the account, and those that ask to",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    answer: {
      status: 200,
      schema: z.object({ namespace_bindings: z.array(shown) }),
      description: "Open requests first",
    },
    errors: [],
    async handle({ caller }) {
      const rows = await listBindings(deps, caller.accountId);
      return { body: { namespace_bindings: rows.map(show) } };
    },
  });
}

function acceptRoute(deps: Deps): Route {
  return route({
    id: "accept_namespace_binding",
    method: "PUT",
    path: memberPath,
    summary: "Let a namespace of a cluster act for the account, or change the bounds",
    access: "session",
    idempotent: true,
    params,
    body: z.object({
      ceiling: scopeList
        .nullable()
        .default(null)
        .describe("The scopes that its platforms may allow at most; null for no limit"),
      four_eyes: z
        .boolean()
        .default(false)
        .describe("Whether an approval in the cluster must come from another person than the requester"),
      namespace_uid: namespaceUid.nullable().optional(),
    }),
    answer: { status: 200, schema: shown, description: "The binding from now on" },
    errors: ["invalid_scopes", "namespace_limit", "external_conflict"],
    async handle({ caller, params, body }) {
      const place = { clusterId: params.cluster, namespace: params.namespace };
      const { accountId: by, email: acceptor } = caller.person;
      const { ceiling, four_eyes: fourEyes, namespace_uid: seenUid } = body;
      const limits = { ceiling, fourEyes, by, seenUid };
      return { body: show({ ...(await acceptBinding(deps, caller.accountId, place, limits)), acceptor }) };
    },
  });
}

function endRoute(deps: Deps): Route {
  return route({
    id: "end_namespace_binding",
    method: "DELETE",
    path: memberPath,
    summary: "Stop letting a namespace act for the account; what it has registered remains",
    access: "session",
    idempotent: true,
    params,
    answer: {
      status: 200,
      schema: z.object({ cluster: z.string(), namespace: z.string(), accepted: z.literal(false) }),
      description: "The namespace can no longer register or request anything",
    },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const { cluster, namespace } = params;
      await endBinding(deps, caller.accountId, { clusterId: cluster, namespace });
      return { body: { cluster, namespace, accepted: false as const } };
    },
  });
}

function show(row: ShownBinding): NamespaceBindingAnswer {
  return {
    cluster: row.cluster_id,
    namespace: row.namespace,
    namespace_uid: row.namespace_uid,
    status: row.accepted_at === null ? "asking" : "accepted",
    ceiling: row.ceiling,
    four_eyes: row.four_eyes,
    asked_at: row.asked_at.toISOString(),
    accepted_at: row.accepted_at?.toISOString() ?? null,
    accepted_by: row.acceptor,
  };
}
