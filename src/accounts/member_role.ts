import type { Transaction } from "../db/database.ts";
import type { Connecting } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import type { MemberRole } from "../route.ts";

/** A person's role in an account, with the account's rules about what its members may do. */
type Held = { role: MemberRole | null; fourEyes: boolean; connecting: Connecting };

/**
 * Returns the role that a person has in an account. The role is `null` for everyone but its members. A
 * personal account has one member, its own person. No value can change before the transaction ends.
 */
export async function lockRole(tx: Transaction, accountId: string, personId: string): Promise<Held> {
  const account = await tx("accounts")
    .where({ account_id: accountId })
    .forShare()
    .first("own_role", "four_eyes", "connecting");
  return {
    role: account === undefined ? null : await roleIn(tx, accountId, personId, account.own_role),
    fourEyes: account?.four_eyes ?? false,
    connecting: account?.connecting ?? "owners",
  };
}

/**
 * Locks an account's members, and throws `forbidden` if a person is no longer an owner. Until the transaction
 * ends, nobody else changes members or what they set up.
 */
export async function requireOwner(tx: Transaction, accountId: string, personId: string): Promise<void> {
  const account = await tx("accounts").where({ account_id: accountId }).forNoKeyUpdate().first("own_role");
  const role = account && (await roleIn(tx, accountId, personId, account.own_role));
  if (role !== "owner") throw new ApiError("forbidden");
}

/**
 * Throws `forbidden` if a person no longer has one of these roles in an account. The role cannot change
 * before the transaction ends.
 */
export async function requireRole(
  tx: Transaction,
  accountId: string,
  personId: string,
  roles: readonly MemberRole[],
): Promise<void> {
  const { role } = await lockRole(tx, accountId, personId);
  if (role === null || !roles.includes(role)) throw new ApiError("forbidden");
}

/** Reads a role and locks it. The caller must hold a lock of the account. */
async function roleIn(
  tx: Transaction,
  accountId: string,
  personId: string,
  ownRole: MemberRole | null,
): Promise<MemberRole | null> {
  if (personId === accountId) return ownRole;
  const member = await tx("organization_members")
    .where({ organization_id: accountId, account_id: personId })
    .forShare()
    .first("role");
  return member?.role ?? null;
}

/** Returns whether a role may approve and deny requests. */
export function mayApprove(role: MemberRole | null): boolean {
  return role === "owner" || role === "approver";
}

/** Returns whether a member with this role may connect a product for an account with this rule. */
export function mayConnect({ role, connecting }: Pick<Held, "role" | "connecting">): boolean {
  return role === "owner" || (role === "approver" && connecting === "owners_and_approvers");
}

/** Returns whether a member may propose a product to those who may connect it. */
export function mayPropose(held: Pick<Held, "role" | "connecting">): boolean {
  return (held.role === "developer" || held.role === "approver") && !mayConnect(held);
}

/** Returns whether anybody can act for an account. Nobody can after its last member has deleted it. */
export async function hasMembers(tx: Transaction, accountId: string): Promise<boolean> {
  const own = await tx("accounts")
    .where({ account_id: accountId })
    .whereNotNull("own_role")
    .first("account_id");
  if (own !== undefined) return true;
  const member = await tx("organization_members").where({ organization_id: accountId }).first("account_id");
  return member !== undefined;
}
