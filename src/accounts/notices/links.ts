import { z } from "zod";
import { addSeconds } from "../../clock.ts";
import type { Transaction } from "../../db/database.ts";
import { type MailContent, quoted } from "../mailings/texts.ts";
import { pageOf } from "./texts.ts";

/** The type of notices about a cluster user whose decisions count from now on. */
export const LINK_TYPE = "approver.linked";

/**
 * Maximum number of these notices about one account to one owner in 24 hours, so that an owner cannot cause
 * more. Notices about other accounts do not count, so that strangers cannot use up the number and hide a
 * link. After the maximum, one more notice says that there may be more links.
 */
export const MAX_LINK_NOTICES = 20;

const LAST = `You got ${MAX_LINK_NOTICES} of these mails about this account in 24 hours, so this is the last one for now. There may be more new users: the page lists all of them.`;

const DAY_SECONDS = 24 * 3600;

const link = z.object({
  account_id: z.string(),
  cluster: z.string(),
  username: z.string(),
  member: z.string(),
  linked_by: z.string(),
  is_last: z.boolean().optional(),
});
type Link = z.infer<typeof link>;

const NOTE = `
insert into notices (event_id, account_id, type, payload, state, next_attempt_at, created_at)
select gen_random_uuid(), owner.account_id, :type,
       case when sent.count < :most then :payload else :last end, 'waiting', :now, :now
from (
  select account_id from accounts where account_id = :accountId and own_role = 'owner'
  union all
  select account_id from organization_members where organization_id = :accountId and role = 'owner'
) as owner
cross join lateral (
  select count(*) from notices n
  where n.account_id = owner.account_id and n.type = :type and n.created_at > :since
    and n.payload::jsonb ->> 'account_id' = :accountId) as sent
where sent.count <= :most`;

/**
 * Stores one notice for each owner of an account about a new link. The notice after the maximum number in 24
 * hours says that there may be more links. Stores none for owners who already got that one.
 */
export async function noteLink(tx: Transaction, noted: Link, now: Date): Promise<void> {
  await tx.raw(NOTE, {
    accountId: noted.account_id,
    type: LINK_TYPE,
    payload: JSON.stringify(noted),
    last: JSON.stringify({ ...noted, is_last: true }),
    now,
    since: addSeconds(now, -DAY_SECONDS),
    most: MAX_LINK_NOTICES,
  });
}

/** Returns the mail about a new link, without the organization's name. */
export function linkContent(payload: string): MailContent {
  const noted = link.parse(JSON.parse(payload));
  const title = "A user of a cluster decides for your account";
  return {
    subject: title,
    heading: title,
    paragraphs: [
      `${quoted(noted.linked_by)} linked a user of a cluster. From now on the user's approvals and denials in the cluster count as the member's, as long as the member may approve.`,
    ],
    items: [
      { label: "User", exact: noted.username },
      `Cluster: ${quoted(noted.cluster)}`,
      `Member: ${quoted(noted.member)}`,
      `Account: ${noted.account_id}`,
    ],
    button: { label: "Look at the linked users", path: pageOf(noted, "/clusters") },
    after: `If you do not expect this, unlink the user on that page. ${noted.is_last ? LAST : "The page lists all users."}`,
    reason: "You get this mail because you are an owner of the account.",
  };
}
