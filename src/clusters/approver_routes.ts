import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { ClusterApproverRow } from "../db/cluster_tables.ts";
import type { Database } from "../db/database.ts";
import { clusterId } from "../input/cluster_fields.ts";
import { idText, isoTime, oneLine } from "../input/schemas.ts";
import { type Route, route } from "../route.ts";
import { linkApprover, listApprovers, unlinkApprover } from "./approvers.ts";

type Deps = { db: Database; clock: Clock };

const path = "/v1/service/cluster-approvers";

const shown = z.object({
  approver_id: z.string(),
  cluster: z.string(),
  username: z.string(),
  linked_at: isoTime,
});

/** An approver as answers show it. */
export type ClusterApproverAnswer = z.infer<typeof shown>;

/** Whose decisions in clusters count as the account owner's. */
export function approverRoutes(deps: Deps): Route[] {
  return [listRoute(deps), linkRoute(deps), unlinkRoute(deps)];
}

function listRoute({ db }: Deps): Route {
  return route({
    id: "list_cluster_approvers",
    method: "GET",
    path,
    summary: "List the users of clusters whose decisions count as the account owner's",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    answer: {
      status: 200,
      schema: z.object({ cluster_approvers: z.array(shown) }),
      description: "By cluster and name",
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
    summary: "Have the decisions of a cluster's user count as the account owner's",
    access: "session",
    idempotent: true,
    body: z.object({
      cluster: clusterId,
      username: oneLine(253).describe("As `kubectl auth whoami` shows it; no service account and no node"),
    }),
    told: ({ cluster, username }) => ({ cluster_id: cluster, username }),
    answer: { status: 201, schema: shown, description: "The approver; one that is linked already as well" },
    errors: ["approver_limit"],
    async handle({ caller, body }) {
      const user = { clusterId: body.cluster, username: body.username };
      return { body: show(await linkApprover(deps, caller.accountId, user)) };
    },
  });
}

function unlinkRoute({ db }: Deps): Route {
  return route({
    id: "unlink_cluster_approver",
    method: "DELETE",
    path: `${path}/{approver_id}`,
    summary: "Have the decisions of a cluster's user count no longer; what was decided stays",
    access: "session",
    idempotent: true,
    params: z.object({ approver_id: idText }),
    answer: {
      status: 200,
      schema: z.object({ approver_id: z.string(), linked: z.literal(false) }),
      description: "No decision from now on",
    },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const { cluster_id, username } = await unlinkApprover(db, caller.accountId, params.approver_id);
      return {
        body: { approver_id: params.approver_id, linked: false as const },
        told: { cluster_id, username },
      };
    },
  });
}

function show({ approver_id, cluster_id, username, linked_at }: ClusterApproverRow): ClusterApproverAnswer {
  return { approver_id, cluster: cluster_id, username, linked_at: linked_at.toISOString() };
}
