import { accountNameOf, type Database } from "../../db/database.ts";
import type { MailingQueueRow } from "../../db/tables.ts";
import type { ScopeDescriptions } from "../../input/platform_fields.ts";
import { LISTED, type MailContent, quoted, unlinked, wordsOf } from "./texts.ts";
import { endOn } from "./times.ts";

/** An undecided proposal to connect a product, with the product's present words. */
export type Proposed = {
  proposal_id: string;
  account_id: string;
  organization_name: string;
  platform_name: string;
  publisher_name: string;
  publisher_domain: string;
  proposed_by: string;
  scopes: string[];
  scope_descriptions: ScopeDescriptions;
  expires_at: Date;
};

type Waiting = Pick<MailingQueueRow, "person_id" | "account_id" | "request_ids" | "omitted_since">;

/** The most proposals that a mail knows. An organization has fewer undecided ones. */
const MOST = 100;

/**
 * Returns the undecided proposals about which a person should still get a mail: none if the person may no
 * longer connect products for the account, and none that the person made.
 */
async function readProposed(
  db: Database,
  { person_id, account_id, request_ids, omitted_since }: Waiting,
  now: Date,
): Promise<Proposed[]> {
  const omitted = omitted_since === null ? "" : "or r.created_at >= :omittedSince";
  const { rows } = await db.raw<{ rows: Proposed[] }>(
    `select r.proposal_id, r.account_id, a.organization_name, p.name as platform_name,
       ${accountNameOf("o")} as publisher_name, p.published_domain as publisher_domain,
       q.email as proposed_by, r.scopes, p.scope_descriptions, r.expires_at
     from connect_proposals r
     join accounts a on a.account_id = r.account_id
     join platforms p on p.platform_id = r.platform_id
     join accounts o on o.account_id = p.account_id
     join accounts q on q.account_id = r.proposed_by
     where r.account_id = :account_id and (r.proposal_id::text = any (:request_ids::text[]) ${omitted})
       and r.approved_at is null and r.ended_at is null and r.expires_at > :now and r.proposed_by <> :person
       and coalesce(
         (select own_role from accounts where account_id = :person and account_id = r.account_id),
         (select role from organization_members where organization_id = r.account_id and account_id = :person))
         in ('owner', case a.connecting when 'owners_and_approvers' then 'approver' end)
     order by r.created_at, r.proposal_id limit ${MOST}`,
    {
      ...{ person: person_id, account_id, request_ids, now },
      ...(omitted_since && { omittedSince: omitted_since }),
    },
  );
  return rows;
}

/** Returns the mail about the proposals that wait for a person, or `undefined` if none waits any longer. */
export async function proposalMail(
  db: Database,
  waiting: Waiting,
  now: Date,
): Promise<MailContent | undefined> {
  const [first, ...others] = await readProposed(db, waiting, now);
  return first && proposalContent([first, ...others], now);
}

/** Returns the mail about undecided proposals of one account. */
export function proposalContent(proposed: readonly [Proposed, ...Proposed[]], now: Date): MailContent {
  return proposed.length === 1 ? one(proposed[0], now) : many(proposed[0], proposed);
}

function one(proposed: Proposed, now: Date): MailContent {
  const { organization_name, platform_name, publisher_name, publisher_domain, proposed_by } = proposed;
  const organization = quoted(organization_name);
  const title = `${quoted(proposed_by)} proposes to connect ${quoted(platform_name)} to ${organization}`;
  return {
    subject: title,
    heading: title,
    paragraphs: [
      `${quoted(publisher_name)} publishes this product and has proved that it owns ${unlinked(publisher_domain)}.`,
      "Connecting lends nothing yet. After your approval, its agents could be lent at most:",
    ],
    items: wordsOf(proposed.scopes, proposed),
    button: { label: "Look at the proposal", path: pathOf(proposed, `/${proposed.proposal_id}`) },
    after: `Nothing happens until somebody approves. The proposal lapses ${endOn(proposed.expires_at, now)}.`,
    reason: reasonFor(organization),
  };
}

function many(first: Proposed, proposed: readonly Proposed[]): MailContent {
  const organization = quoted(first.organization_name);
  const title = `${proposed.length} products are proposed to be connected to ${organization}`;
  const more = proposed.length - LISTED;
  return {
    subject: title,
    heading: title,
    paragraphs: [],
    items: [
      ...proposed
        .slice(0, LISTED)
        .map(
          ({ platform_name, publisher_domain, proposed_by }) =>
            `${quoted(platform_name)} of ${unlinked(publisher_domain)}, proposed by ${quoted(proposed_by)}`,
        ),
      ...(more > 0 ? [`and ${more} more`] : []),
    ],
    button: { label: "Look at the proposals", path: pathOf(first, "") },
    after: "Nothing happens until somebody approves.",
    reason: reasonFor(organization),
  };
}

function reasonFor(organization: string): string {
  return `You get this mail because you may connect products for the organization ${organization}.`;
}

function pathOf({ account_id }: Proposed, path: string): string {
  return `/console/for/${account_id}/proposals${path}`;
}
