import { lockRole, mayApprove, requireOwner } from "../accounts/member_role.ts";
import { noteLink } from "../accounts/notices/links.ts";
import type { Clock } from "../clock.ts";
import type { ClusterApproverRow } from "../db/cluster_tables.ts";
import type { Database, Transaction } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { isUuid, newId } from "../ids.ts";
import type { MemberRole } from "../route.ts";

type ClusterUser = { clusterId: string; username: string };

type Deps = { db: Database; clock: Clock };

/** A link with the addresses of its member and its owner, and the member's role at this moment. */
export type LinkedApprover = ClusterApproverRow & {
  member_email: string | null;
  linker_email: string | null;
  role: MemberRole | null;
};

const MAX_APPROVERS = 1_000;

/** Users who are not people: service accounts, nodes, and anonymous callers. */
const NO_PERSON = /^system:(serviceaccount:|node:|anonymous$)/;

/** Returns whether a cluster user is a person, and so may decide for an account. */
export function isPerson(username: string): boolean {
  return !NO_PERSON.test(username);
}

/**
 * Links a cluster user to a member. The user's decisions are then this member's decisions. `by` is the owner
 * who links the user. Without `memberId`, the link keeps its present member, and a new link gets `by`. A new
 * link of a user replaces the earlier one, unless both are equal. Every owner gets a mail about a new link.
 *
 * Throws `invalid_request` if the user is not a person, `not_found` if there is no such member, `forbidden`
 * if `by` is no longer an owner, and `approver_limit` if the account has too many approvers.
 */
export async function linkApprover(
  { db, clock }: Deps,
  accountId: string,
  { clusterId, username, memberId: named, by }: ClusterUser & { memberId?: string | undefined; by: string },
): Promise<LinkedApprover> {
  if (!isPerson(username)) {
    throw new ApiError("invalid_request", "username: must be a person, not a service account or a node");
  }
  return db.transaction(async (tx) => {
    await requireOwner(tx, accountId, by);
    const user = { account_id: accountId, cluster_id: clusterId, username };
    const former = await tx("cluster_approvers").where(user).first("member_id", "linked_by");
    const isPresent = async (id: string) => (await lockRole(tx, accountId, id)).role !== null;
    const memberId = named ?? (await firstPresent([former?.member_id, by], isPresent));
    if (memberId === undefined || !(await isPresent(memberId))) throw new ApiError("not_found");
    const link = { member_id: memberId, linked_by: by };
    const isNew = former?.member_id !== memberId || former.linked_by !== by;
    const now = clock.now();
    if (isNew) {
      await tx("cluster_approvers")
        .insert({ ...user, ...link, approver_id: newId(), linked_at: now })
        .onConflict(["account_id", "cluster_id", "username"])
        .merge(["member_id", "linked_by", "linked_at"]);
    }
    const linked = await listApprovers(tx, accountId);
    if (linked.length > MAX_APPROVERS) throw new ApiError("approver_limit");
    const row = linked.find((each) => each.cluster_id === clusterId && each.username === username);
    if (row === undefined) throw new Error("The approver was not written");
    if (isNew) await noteLink(tx, noticeOf(row), now);
    return row;
  });
}

async function firstPresent(
  ids: readonly (string | null | undefined)[],
  isPresent: (id: string) => Promise<boolean>,
): Promise<string | undefined> {
  for (const id of ids) if (id && (await isPresent(id))) return id;
  return undefined;
}

function noticeOf({ account_id, cluster_id, username, member_email, linker_email }: LinkedApprover) {
  const people = { member: member_email ?? "", linked_by: linker_email ?? "" };
  return { account_id, cluster: cluster_id, username, ...people };
}

/**
 * Selects the member of a link. Earlier versions name no member. In a personal account, that is the account's
 * own person.
 */
const MEMBER = "coalesce(l.member_id, case when a.account_type = 'individual' then a.account_id end)";

/** Returns an account's links by cluster and user, with the roles of their members at this moment. */
export async function listApprovers(
  db: Database | Transaction,
  accountId: string,
): Promise<LinkedApprover[]> {
  const { rows } = await db.raw<{ rows: LinkedApprover[] }>(
    `select l.*, m.account_id as member_id, m.email as member_email, o.email as linker_email,
            case when m.account_id = a.account_id then a.own_role else r.role end as role
     from cluster_approvers l
     join accounts a on a.account_id = l.account_id
     left join accounts m on m.account_id = ${MEMBER}
     left join organization_members r on r.organization_id = l.account_id and r.account_id = m.account_id
     left join accounts o on o.account_id = l.linked_by
     where l.account_id = :accountId
     order by l.cluster_id, l.username`,
    { accountId },
  );
  return rows;
}

/** Unlinks a user, whose later decisions do not count. Earlier decisions remain valid. Throws `not_found`. */
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
 * Returns the member to whom a cluster user is linked, if this member may approve at this moment. Neither the
 * link nor the member's role can change before the transaction ends.
 */
export async function findApprover(
  tx: Transaction,
  accountId: string,
  user: ClusterUser,
): Promise<string | undefined> {
  // A removal of a member locks the account before the links, so this function does too.
  await tx("accounts").select("account_id").where({ account_id: accountId }).forShare();
  const memberId = await findLinkedMember(tx, accountId, user);
  if (memberId === undefined) return undefined;
  const { role } = await lockRole(tx, accountId, memberId);
  return mayApprove(role) ? memberId : undefined;
}

/**
 * Returns the member to whom a cluster user is linked, whatever the member's role. The link cannot change
 * before the transaction ends. The caller must hold a lock of the account.
 */
export async function findLinkedMember(
  tx: Transaction,
  accountId: string,
  { clusterId, username }: ClusterUser,
): Promise<string | undefined> {
  const { rows } = await tx.raw<{ rows: { member_id: string | null }[] }>(
    `select ${MEMBER} as member_id from cluster_approvers l join accounts a on a.account_id = l.account_id
     where l.account_id = :accountId and l.cluster_id = :clusterId and l.username = :username
     for share of l`,
    { accountId, clusterId, username },
  );
  return rows[0]?.member_id ?? undefined;
}
