import { z } from "zod";
import { mayApprove } from "../accounts/member_role.ts";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { clusterId } from "../input/cluster_fields.ts";
import { idText, isoTime, oneLine } from "../input/schemas.ts";
import { type Route, route } from "../route.ts";
import { type LinkedApprover, linkApprover, listApprovers, unlinkApprover } from "./approvers.ts";

type Deps = { db: Database; clock: Clock };

const path = "/v1/service/cluster-approvers";

const shown = z.object({
  approver_id: z.string(),
  cluster: z.string(),
  username: z.string(),
  member: z
    .object({ account_id: z.string(), email: z.string() })
    .nullable()
    .describe("Whose decisions they are; null if not known"),
  counts: z.boolean().describe("Whether the member may approve now"),
  linked_by: z.string().nullable().describe("The owner's e-mail address"),
  linked_at: isoTime,
});

/** An approver, as the API returns it. */
export type ClusterApproverAnswer = z.infer<typeof shown>;

/** Returns the routes for the cluster users whose decisions count as a member's. */
export function approverRoutes(deps: Deps): Route[] {
  return [listRoute(deps), linkRoute(deps), unlinkRoute(deps)];
}

function listRoute({ db }: Deps): Route {
  return route({
    id: "list_cluster_approvers",
    method: "GET",
    path,
    summary: "List the users of clusters whose decisions there count as a member's",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    answer: {
      status: 200,
      schema: z.object({ cluster_approvers: z.array(shown) }),
      description: "Ordered by cluster and name",
    },
    errors: [],
    async handle({ caller }) {
      const rows = await listApprovers(db, caller.accountId);
      return { body: { cluster_approvers: rows.map(show) } };
    },
  });
}

function linkRoute(deps: Deps): Route {
  return route({
    id: "link_cluster_approver",
    method: "POST",
    path,
    summary: "Let the decisions of a cluster's user count as a member's",
    access: "session",
    idempotent: true,
    body: z.object({
      cluster: clusterId,
      username: oneLine(253).describe(
        "The name that `kubectl auth whoami` prints; not a service account or node",
      ),
      member_account_id: z
        .guid()
        .optional()
        .describe("Default: the member of the user's link, or the caller"),
    }),
    activityDetails: ({ cluster, username, member_account_id: member }) => ({
      ...{ cluster_id: cluster, username },
      ...(member && { account_id: member }),
    }),
    answer: { status: 201, schema: shown, description: "The approver; an earlier link of the user ends" },
    errors: ["approver_limit"],
    async handle({ caller: { accountId, person }, body: { cluster, username, member_account_id } }) {
      const user = { clusterId: cluster, username, memberId: member_account_id, by: person.accountId };
      return { body: show(await linkApprover(deps, accountId, user)) };
    },
  });
}

function unlinkRoute({ db }: Deps): Route {
  return route({
    id: "unlink_cluster_approver",
    method: "DELETE",
    path: `${path}/{approver_id}`,
    summary: "Stop counting the decisions of a cluster's user; earlier decisions remain",
    access: "session",
    idempotent: true,
    params: z.object({ approver_id: idText }),
    answer: {
      status: 200,
      schema: z.object({ approver_id: z.string(), linked: z.literal(false) }),
      description: "Decisions of this user no longer count",
    },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const { cluster_id, username } = await unlinkApprover(db, caller.accountId, params.approver_id);
      return {
        body: { approver_id: params.approver_id, linked: false as const },
        activityDetails: { cluster_id, username },
      };
    },
  });
}

function show(row: LinkedApprover): ClusterApproverAnswer {
  const { approver_id, cluster_id, username, member_id, member_email, linker_email, role, linked_at } = row;
  return {
    approver_id,
    cluster: cluster_id,
    username,
    member: member_id && member_email ? { account_id: member_id, email: member_email } : null,
    counts: mayApprove(role),
    linked_by: linker_email,
    linked_at: linked_at.toISOString(),
  };
}
