import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { ClusterApproverRow } from "../db/cluster_tables.ts";
import type { Database, Transaction } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { isUuid, newId } from "../ids.ts";
import { clusterId } from "../input/cluster_fields.ts";
import { idText, isoTime, oneLine } from "../input/schemas.ts";
import { type Route, route } from "../route.ts";

/** A user of a cluster. */
type ClusterUser = { clusterId: string; username: string };

type Deps = { db: Database; clock: Clock };

/** Approvers that an account links at most. */
const MAX_APPROVERS = 1_000;

/** Users that are no persons: programs, nodes, and everybody who is not signed in. */
const NO_PERSON = /^system:(serviceaccount:|node:|anonymous$)/;

/** Whether a user of a cluster may decide for an account at all. */
export function isPerson(username: string): boolean {
  return !NO_PERSON.test(username);
}

/**
 * Has a user's decisions in a cluster count as the account owner's; linking again changes nothing. Throws
 * `invalid_request` for a user that is no person, `approver_limit`.
 */
async function linkApprover(
  { db, clock }: Deps,
  accountId: string,
  { clusterId, username }: ClusterUser,
): Promise<ClusterApproverRow> {
  if (!isPerson(username)) {
    throw new ApiError("invalid_request", "username: a person decides; service accounts and nodes do not");
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

/** An account's approvers, by cluster and name. */
async function listApprovers(db: Database, accountId: string): Promise<ClusterApproverRow[]> {
  return db("cluster_approvers").where({ account_id: accountId }).orderBy(["cluster_id", "username"]);
}

/** Has a user's decisions count no longer. What was decided stays. Throws `not_found`. */
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
 * Whether a user's decisions in a cluster count for an account. In a transaction that stays so until its end.
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
