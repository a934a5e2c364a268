import { z } from "zod";
import { addSeconds } from "../../clock.ts";
import type { Transaction } from "../../db/database.ts";
import { type MailContent, quoted } from "../mailings/texts.ts";
import { pageOf } from "./texts.ts";

/** The type of notices about a cluster user whose decisions count from now on. */
export const LINK_TYPE = "approver.linked";

/**
 * Maximum number of these notices about one account to one owner in 24 hours. Otherwise one owner could send
 * any number. Notices about other accounts do not count. Otherwise strangers could hide a link from an owner.
 */
export const MAX_LINK_NOTICES = 20;

const DAY_SECONDS = 24 * 3600;

const link = z.object({
  account_id: z.string(),
  cluster: z.string(),
  username: z.string(),
  member: z.string(),
  linked_by: z.string(),
});
type Link = z.infer<typeof link>;

const NOTE = `
insert into notices (event_id, account_id, type, payload, state, next_attempt_at, created_at)
select gen_random_uuid(), owner.account_id, :type, :payload, 'waiting', :now, :now
from (
  select account_id from accounts where account_id = :accountId and own_role = 'owner'
  union all
  select account_id from organization_members where organization_id = :accountId and role = 'owner'
) as owner
where :most > (
  select count(*) from notices n
  where n.account_id = owner.account_id and n.type = :type and n.created_at > :since
    and n.payload::jsonb ->> 'account_id' = :accountId)`;

/**
 * Stores one notice for each owner of an account about a new link. Stores none for owners who already got the
 * maximum number of such notices about this account in 24 hours.
 */
export async function noteLink(tx: Transaction, noted: Link, now: Date): Promise<void> {
  await tx.raw(NOTE, {
    accountId: noted.account_id,
    type: LINK_TYPE,
    payload: JSON.stringify(noted),
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
      `User: ${quoted(noted.username)}`,
      `Cluster: ${quoted(noted.cluster)}`,
      `Member: ${quoted(noted.member)}`,
      `Account: ${noted.account_id}`,
    ],
    button: { label: "Look at the linked users", path: pageOf(noted, "/clusters") },
    after: `If you do not expect this, unlink the user on that page. You get at most ${MAX_LINK_NOTICES} of these mails in 24 hours for each account. The page lists all users.`,
    reason: "You get this mail because you are an owner of the account.",
  };
}
