import type { Clock } from "../clock.ts";
import type { ClusterApproverRow } from "../db/cluster_tables.ts";
import type { Database, Transaction } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { isUuid, newId } from "../ids.ts";

/** A user of a cluster. */
export type ClusterUser = { clusterId: string; username: string };

type Deps = { db: Database; clock: Clock };

/** Approvers that an account links at most. */
export const MAX_APPROVERS = 1_000;

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
export async function linkApprover(
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
export async function listApprovers(db: Database, accountId: string): Promise<ClusterApproverRow[]> {
  return db("cluster_approvers").where({ account_id: accountId }).orderBy(["cluster_id", "username"]);
}

/** Has a user's decisions count no longer. What was decided stays. Throws `not_found`. */
export async function unlinkApprover(
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
