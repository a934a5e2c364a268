import type { Database } from "../../db/database.ts";
import type { MailingQueueRow } from "../../db/tables.ts";
import type { ScopeDescriptions } from "../../input/platform_fields.ts";
import { LISTED, type MailContent, quoted, wordsOf } from "./texts.ts";
import { endOn } from "./times.ts";

/** A member's proposal to connect a product, after it was decided or lapsed. */
export type ProposalOutcome = {
  proposal_id: string;
  account_id: string;
  organization_name: string;
  platform_name: string;
  outcome: "approved" | "declined" | "lapsed";
  /** Null: nobody decided, or the account of the member who did is deleted. */
  decided_by: string | null;
  scopes: string[];
  scope_descriptions: ScopeDescriptions;
  expires_at: Date;
};

type Waiting = Pick<MailingQueueRow, "person_id" | "account_id" | "request_ids" | "omitted_since">;

/** The most outcomes that a mail knows. */
const MOST = 100;

/**
 * Returns the outcomes about which a person should still get a mail: of proposals that this person made last
 * and somebody else decided, or that lapsed. None if the person is no longer a member, and none of approvals
 * that have ended.
 */
async function readOutcomes(
  db: Database,
  { person_id, account_id, request_ids, omitted_since }: Waiting,
  now: Date,
): Promise<ProposalOutcome[]> {
  const omitted = omitted_since === null ? "" : "or coalesce(r.approved_at, r.ended_at) >= :omittedSince";
  const { rows } = await db.raw<{ rows: ProposalOutcome[] }>(
    `select r.proposal_id, r.account_id, a.organization_name, p.name as platform_name,
       case when r.approved_at is not null then 'approved' when r.declined_by is not null then 'declined'
         else 'lapsed' end as outcome,
       d.email as decided_by, r.scopes, p.scope_descriptions, r.expires_at
     from connect_proposals r
     join accounts a on a.account_id = r.account_id
     join platforms p on p.platform_id = r.platform_id
     left join accounts d on d.account_id = coalesce(r.declined_by, r.approved_by)
     where r.account_id = :account_id and (r.proposal_id::text = any (:request_ids::text[]) ${omitted})
       and (r.approved_at is not null and r.expires_at > :now or r.ended_at is not null)
       and r.proposed_by = :person and r.proposed_by is distinct from coalesce(r.declined_by, r.approved_by)
       and (exists (select from accounts where account_id = :person and account_id = r.account_id and own_role is not null)
         or exists (select from organization_members where organization_id = r.account_id and account_id = :person))
     order by coalesce(r.approved_at, r.ended_at), r.proposal_id limit ${MOST}`,
    {
      ...{ person: person_id, account_id, request_ids, now },
      ...(omitted_since && { omittedSince: omitted_since }),
    },
  );
  return rows;
}

/** Returns the mail about the outcomes of a person's proposals, or `undefined` if there is none to report. */
export async function outcomeMail(
  db: Database,
  waiting: Waiting,
  now: Date,
): Promise<MailContent | undefined> {
  const [first, ...others] = await readOutcomes(db, waiting, now);
  return first && outcomeContent([first, ...others], now);
}

/** Returns the mail about outcomes of one person's proposals for one organization. */
export function outcomeContent(
  outcomes: readonly [ProposalOutcome, ...ProposalOutcome[]],
  now: Date,
): MailContent {
  return outcomes.length === 1 ? one(outcomes[0], now) : many(outcomes[0], outcomes);
}

function one(outcome: ProposalOutcome, now: Date): MailContent {
  const { outcome: what, platform_name, organization_name, expires_at } = outcome;
  const verb = what === "lapsed" ? "lapsed" : `was ${what}`;
  const title = `Your proposal to connect ${quoted(platform_name)} to ${quoted(organization_name)} ${verb}`;
  const who = outcome.decided_by === null ? "Somebody" : quoted(outcome.decided_by);
  const shared = { subject: title, heading: title, reason: REASON };
  if (what !== "approved") {
    return {
      ...shared,
      paragraphs: [what === "declined" ? `${who} declined it.` : "Nobody decided within 7 days."],
      items: [],
      button: { label: "Look at the proposals", path: pathOf(outcome, "") },
      after: "Nothing is connected.",
    };
  }
  return {
    ...shared,
    paragraphs: [
      `${who} approved it. Begin again at the product: one click now connects it. Its agents could be lent at most:`,
    ],
    items: wordsOf(outcome.scopes, outcome),
    button: { label: "Look at the approval", path: pathOf(outcome, `/${outcome.proposal_id}`) },
    after: `The approval ends ${endOn(expires_at, now)}.`,
  };
}

function many(first: ProposalOutcome, outcomes: readonly ProposalOutcome[]): MailContent {
  const verb = outcomes.some(({ outcome }) => outcome === "lapsed")
    ? "were decided or lapsed"
    : "were decided";
  const title = `${outcomes.length} of your proposals to connect products to ${quoted(first.organization_name)} ${verb}`;
  const more = outcomes.length - LISTED;
  return {
    subject: title,
    heading: title,
    paragraphs: [],
    items: [
      ...outcomes
        .slice(0, LISTED)
        .map(({ platform_name, outcome }) => `${quoted(platform_name)}: ${outcome}`),
      ...(more > 0 ? [`and ${more} more`] : []),
    ],
    button: { label: "Look at the proposals", path: pathOf(first, "") },
    after: "You can connect an approved product: begin again at the product.",
    reason: REASON,
  };
}

const REASON = "You get this mail because you proposed it.";

function pathOf({ account_id }: ProposalOutcome, path: string): string {
  return `/console/for/${account_id}/proposals${path}`;
}
