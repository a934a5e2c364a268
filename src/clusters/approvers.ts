import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { ClusterApproverRow } from "../db/cluster_tables.ts";
import type { Database, Transaction } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { isUuid, newId } from "../ids.ts";
import { clusterId } from "../input/cluster_fields.ts";
import { idText, isoTime, oneLine } from "../input/schemas.ts";
import { type Route, route } from "../route.ts";

type ClusterUser = { clusterId: string; username: string };

type Deps = { db: Database; clock: Clock };

const MAX_APPROVERS = 1_000;

/** Users who are not people: service accounts, nodes, and anonymous callers. */
const NO_PERSON = /^system:(serviceaccount:|node:|anonymous$)/;

/** Returns whether a cluster user is a person, and so may decide for an account. */
export function isPerson(username: string): boolean {
  return !NO_PERSON.test(username);
}

/**
 * Links a cluster user, whose decisions then count as those of the account's owner. Throws `invalid_request`
 * if the user is not a person, and `approver_limit` if the account has too many approvers.
 */
async function linkApprover(
  { db, clock }: Deps,
  accountId: string,
  { clusterId, username }: ClusterUser,
): Promise<ClusterApproverRow> {
  if (!isPerson(username)) {
    throw new ApiError("invalid_request", "username: must be a person, not a service account or a node");
  }
  return db.transaction(async (tx) => {
    await tx("accounts").select("account_id").where({ account_id: accountId }).forNoKeyUpdate();
    const user = { account_id: accountId, cluster_id: clusterId, username };
    await tx("cluster_approvers")
      .insert({ ...user, approver_id: newId(), linked_at: clock.now() })
      .onConflict(["account_id", "cluster_id", "username"])
      .ignore();
    const linked = await tx("cluster_approvers").where({ account_id: accountId });
    if (linked.length > MAX_APPROVERS) throw new ApiError("approver_limit");
    const row = linked.find((each) => each.cluster_id === clusterId && each.username === username);
    if (row === undefined) throw new Error("The approver was not written");
    return row;
  });
}

async function listApprovers(db: Database, accountId: string): Promise<ClusterApproverRow[]> {
  return db("cluster_approvers").where({ account_id: accountId }).orderBy(["cluster_id", "username"]);
}

/** Unlinks a user, whose later decisions do not count. Earlier decisions remain valid. Throws `not_found`. */
async function unlinkApprover(
  db: Database,
  accountId: string,
  approverId: string,
): Promise<ClusterApproverRow> {
  if (!isUuid(approverId)) throw new ApiError("not_found");
  const own = { account_id: accountId, approver_id: approverId };
  const [unlinked] = await db("cluster_approvers").where(own).delete().returning("*");
  if (unlinked === undefined) throw new ApiError("not_found");
  return unlinked;
}

/**
 * Returns whether a user's decisions in a cluster count for an account. Inside a transaction, the link cannot
 * be removed before the transaction ends.
 */
export async function isLinked(
  db: Database | Transaction,
  accountId: string,
  { clusterId, username }: ClusterUser,
): Promise<boolean> {
  const user = { account_id: accountId, cluster_id: clusterId, username };
  const [row] = await db("cluster_approvers").where(user).select("approver_id").forShare();
  return row !== undefined;
}

const path = "/v1/service/cluster-approvers";

const shown = z.object({
  approver_id: z.string(),
  cluster: z.string(),
  username: z.string(),
  linked_at: isoTime,
});

/** An approver, as the API returns it. */
export type ClusterApproverAnswer = z.infer<typeof shown>;

/** Returns the routes for the cluster users whose decisions count as those of the account's owner. */
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
    summary: "Let the decisions of a cluster's user count as the account owner's",
    access: "session",
    idempotent: true,
    body: z.object({
      cluster: clusterId,
      username: oneLine(253).describe(
        "The name that `kubectl auth whoami` prints; not a service account or node",
      ),
    }),
    activityDetails: ({ cluster, username }) => ({ cluster_id: cluster, username }),
    answer: { status: 201, schema: shown, description: "The approver, also if it was already linked" },
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

function show({ approver_id, cluster_id, username, linked_at }: ClusterApproverRow): ClusterApproverAnswer {
  return { approver_id, cluster: cluster_id, username, linked_at: linked_at.toISOString() };
}
