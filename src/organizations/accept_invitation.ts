import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import type { OrganizationInvitationRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import type { ActingPerson } from "../route.ts";
import { writeAct } from "./activity.ts";
import { hashInvitation } from "./invite.ts";
import { lockMembers } from "./members.ts";
import { endSetups, lockSetups } from "./setups.ts";

/**
 * Returns the invitation of a token, with the names of the organization and the inviter. Throws
 * `invalid_invitation` in the same cases as {@link acceptInvitation}.
 */
export async function findInvitation(
  { db, clock }: { db: Database; clock: Clock },
  { email }: ActingPerson,
  token: string,
): Promise<OrganizationInvitationRow & { organization_name: string; inviter: string }> {
  const row = await db("organization_invitations as i")
    .join("accounts as o", "o.account_id", "i.organization_id")
    .join("accounts as a", "a.account_id", "i.invited_by")
    .where({ "i.token_hash": hashInvitation(token), "i.email": email })
    .where("i.expires_at", ">", clock.now())
    .first("i.*", "o.organization_name", "a.email as inviter");
  if (row === undefined) throw new ApiError("invalid_invitation");
  return row;
}

/**
 * Makes a person a member by their invitation's token, which can be used once. Throws `invalid_invitation`
 * for every token that is not valid for this person: unknown, used, withdrawn, expired, or for a different
 * address.
 */
export async function acceptInvitation(
  { db, clock }: { db: Database; clock: Clock },
  person: ActingPerson,
  token: string,
): Promise<OrganizationInvitationRow> {
  const own = { token_hash: hashInvitation(token), email: person.email };
  const found = await db("organization_invitations").where(own).first("organization_id");
  if (found === undefined) throw new ApiError("invalid_invitation");
  // An earlier version may have removed this person without ending what they had set up.
  const former = {
    ...{ accountId: found.organization_id, personId: person.accountId },
    ...{ wasOwner: false, stays: false },
  };
  return db.transaction(async (tx) => {
    await lockSetups(tx, former);
    await lockMembers(tx, found.organization_id);
    const { accountId, email } = person;
    const account = await tx("accounts")
      .where({ account_id: accountId, email })
      .forShare()
      .first("account_id");
    if (account === undefined) throw new ApiError("invalid_invitation");
    const now = clock.now();
    const [invitation] = await tx("organization_invitations")
      .where(own)
      .where("expires_at", ">", now)
      .delete()
      .returning("*");
    if (invitation === undefined) throw new ApiError("invalid_invitation");
    await endSetups(tx, former);
    await join(tx, person.accountId, invitation, now);
    const { organization_id: organizationId, role } = invitation;
    const act = {
      accountId: organizationId,
      person: { ...person, role },
      operation: "accept_invitation",
      target: { role },
    };
    await writeAct(tx, act, { status: "done", now });
    return invitation;
  });
}

/** A person who opened the organization's account and left it rejoins with that account. */
async function join(
  tx: Transaction,
  accountId: string,
  { organization_id, role }: OrganizationInvitationRow,
  now: Date,
): Promise<void> {
  if (accountId === organization_id) {
    await tx("accounts").where({ account_id: accountId }).update({ own_role: role });
  } else {
    await tx("organization_members").insert({ organization_id, account_id: accountId, role, joined_at: now });
  }
}
