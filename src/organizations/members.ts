import { lockRole } from "../accounts/member_role.ts";
import type { Database, Transaction } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { isUuid } from "../ids.ts";
import type { MemberRole, SessionCaller } from "../route.ts";
import { endSetups, findLeftovers, lockSetups } from "./setups.ts";

/** Throws `not_available` for a call that is not made for an organization. */
export function requireOrganization({ organization }: SessionCaller): void {
  if (!organization) throw new ApiError("not_available", "Only accounts of type organization can do this");
}

/** Maximum number of an organization's members and open invitations together. */
export const MAX_MEMBERS = 200;

/** A member of an organization. For the person who opened it, `account_id` is the organization's account. */
export type Member = {
  account_id: string;
  email: string;
  first_name: string | null;
  last_name: string | null;
  role: MemberRole;
  joined_at: Date;
};

/** Returns an organization's members in the order in which they joined. */
export async function listMembers(db: Database | Transaction, organizationId: string): Promise<Member[]> {
  const { rows } = await db.raw<{ rows: Member[] }>(
    `select account_id, email, first_name, last_name, own_role as role, created_at as joined_at
       from accounts where account_id = :organizationId and own_role is not null
     union all
     select a.account_id, a.email, a.first_name, a.last_name, m.role, m.joined_at
       from organization_members m join accounts a on a.account_id = m.account_id
       where m.organization_id = :organizationId
     order by joined_at, account_id`,
    { organizationId },
  );
  return rows;
}

/** Locks an organization's members, so that other changes to members, and approvals, wait. */
export async function lockMembers(tx: Transaction, organizationId: string): Promise<void> {
  await tx("accounts").select("account_id").where({ account_id: organizationId }).forNoKeyUpdate();
}

/** `role: null` removes the member. `by` is the member who makes the change. */
type MemberChange = { accountId: string; role: MemberRole | null; by: string };

/**
 * Changes a member's role, or removes the member. What the member set up then ends, unless another owner took
 * it over. The caller must be an owner, unless they remove themselves.
 * Throws `not_found`, `forbidden`, and `last_owner` if no owner would remain.
 */
export async function changeMember(
  db: Database,
  organizationId: string,
  { accountId, role, by }: MemberChange,
): Promise<Member> {
  if (!isUuid(accountId)) throw new ApiError("not_found");
  return db.transaction((tx) => changeMemberIn(tx, organizationId, { accountId, role, by }));
}

/** Does the same as {@link changeMember} in a transaction of the caller. */
export async function changeMemberIn(
  tx: Transaction,
  organizationId: string,
  { accountId, role, by }: MemberChange,
): Promise<Member> {
  const leaver = { accountId: organizationId, personId: accountId, stays: role !== null };
  if (role !== "owner") await lockSetups(tx, { ...leaver, wasOwner: true });
  await lockMembers(tx, organizationId);
  const members = await listMembers(tx, organizationId);
  const memberOf = (id: string) => members.find(({ account_id }) => account_id === id);
  const member = memberOf(accountId);
  const caller = memberOf(by);
  if (member === undefined || caller === undefined) throw new ApiError("not_found");
  const leaves = member === caller && role === null;
  if (caller.role !== "owner" && !leaves) throw new ApiError("forbidden");
  const hasOwner = members.some((each) => each !== member && each.role === "owner");
  if (role !== "owner" && !hasOwner) throw new ApiError("last_owner");
  await writeRole(tx, organizationId, accountId, role);
  if (role !== "owner") {
    await withdrawInvitations(tx, organizationId, accountId);
    await endSetups(tx, { ...leaver, wasOwner: member.role === "owner" });
  }
  return { ...member, role: role ?? member.role };
}

async function withdrawInvitations(
  tx: Transaction,
  organizationId: string,
  accountId: string,
): Promise<void> {
  await tx("organization_invitations")
    .where({ organization_id: organizationId, invited_by: accountId })
    .delete();
}

async function writeRole(
  tx: Transaction,
  organizationId: string,
  accountId: string,
  role: MemberRole | null,
): Promise<void> {
  const own = { organization_id: organizationId, account_id: accountId };
  if (accountId === organizationId) {
    await tx("accounts").where({ account_id: organizationId }).update({ own_role: role });
  } else if (role === null) {
    await tx("organization_members").where(own).delete();
  } else {
    await tx("organization_members").where(own).update({ role });
  }
}

/**
 * Ends what former members and former owners set up. Earlier versions do not end it when they remove a
 * member, and such a version may still run during an upgrade.
 */
export async function sweepSetups({ db }: { db: Database }): Promise<void> {
  for (const { accountId, personId } of await findLeftovers(db)) {
    await db.transaction(async (tx) => {
      const person = { accountId, personId, wasOwner: false };
      await lockSetups(tx, { ...person, stays: false });
      await lockMembers(tx, accountId);
      const { role } = await lockRole(tx, accountId, personId);
      if (role !== "owner") await endSetups(tx, { ...person, stays: role !== null });
    });
  }
}
