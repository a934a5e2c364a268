import { accountNameOf, type Database, platformOf } from "../../db/database.ts";
import type { MailingQueueRow, RequestMailKind } from "../../db/tables.ts";
import type { ScopeDescriptions } from "../../input/platform_fields.ts";

/** A request that a mail mentions, in its current state. */
export type Subject = {
  request_id: string;
  /**
   * The account whose authority the request is about, and its organization's name. For a channel, the email
   * address replaces a missing name, because other people read the channel too.
   */
  account_id: string;
  organization_name: string | null;
  agent_name: string;
  platform_name: string;
  /** The organization and the verified domain under which the platform is published. */
  publisher_name: string | null;
  publisher_domain: string | null;
  status: "pending" | "approved" | "denied" | "lapsed";
  requested_scope: string[];
  /** The words of the platform for its custom scopes when the request was made. */
  scope_descriptions: ScopeDescriptions;
  /** Why the agent needs it, in the words of whoever asks. */
  purpose: string | null;
  requested_expires_at: Date | null;
  requested_expires_in: number | null;
  /** When the request lapses. */
  expires_at: Date;
  decided_by: string | null;
  /** The person who asked, or the object's requester. Null if neither is known. */
  asked_by: string | null;
  approved_scope: string[] | null;
  cert_id: string | null;
  /** The end of the certificate. Null if it does not expire. */
  ends_at: Date | null;
};

/** The person whom a mail reaches, the account that it is about, and what waits. */
type WaitingMail = Pick<MailingQueueRow, "person_id" | "account_id" | "request_ids" | "omitted_since"> & {
  kind: RequestMailKind | "channel";
};

/** Whether a person may still act for the account, with one of these roles. */
const roleIn = (roles: string) => `coalesce(
  (select own_role from accounts where account_id = :person and account_id = r.account_id),
  (select role from organization_members where organization_id = r.account_id and account_id = :person), '') in (${roles})`;

const DECIDES = roleIn("'owner', 'approver'");
const BELONGS = roleIn("'owner', 'approver', 'developer', 'auditor'");
const WAITS = `r.status = 'pending' and r.expires_at > :now and ${DECIDES}
  and not (h.four_eyes and coalesce(r.requested_by, r.connected_by) is not distinct from :person)`;

const LAPSED = "r.status in ('pending', 'expired') and r.lapse_noted_at is not null";

const CONDITIONS: Record<RequestMailKind | "channel", string> = {
  channel: "r.status = 'pending' and r.expires_at > :now",
  request_waits: WAITS,
  request_lapses: `(${WAITS} and r.lapse_noted_at is null
    or ${LAPSED} and ${DECIDES} and r.requested_by is distinct from :person)`,
  request_decided: `(r.status in ('approved', 'denied') or ${LAPSED}) and r.requested_by = :person and ${BELONGS}`,
  authority_lent: `t.status = 'approved' and t.approved_by = :person and ${BELONGS}`,
};

/** When the thing happened that a kind of mail is about. */
const TIMES: Record<RequestMailKind | "channel", string> = {
  channel: "r.created_at",
  request_waits: "r.created_at",
  request_lapses: "coalesce(r.lapse_noted_at, r.reminded_at)",
  request_decided: "coalesce(r.decided_at, r.lapse_noted_at)",
  authority_lent: "r.decided_at",
};

/** The most requests that {@link readSubjects} returns. It counts the others. */
const MOST = 100;

/**
 * Returns the requests of an account about which a person should still get this kind of mail. First come
 * those of `request_ids`, in this order, and then those since `omitted_since`. `total` counts all of them.
 * Leaves out requests that were decided in the meantime, and all of them if the person lost the role.
 */
export async function readSubjects(
  db: Database,
  { person_id, account_id, kind, request_ids, omitted_since }: WaitingMail,
  now: Date,
): Promise<{ subjects: Subject[]; total: number }> {
  const omitted = omitted_since === null ? "" : `or ${TIMES[kind]} >= :omittedSince`;
  const { rows } = await db.raw<{ rows: (Subject & { total: number })[] }>(
    `select r.request_id, r.account_id, ${kind === "channel" ? "coalesce(h.organization_name, h.email) as " : "h."}organization_name, b.name as agent_name, p.name as platform_name,
            ${accountNameOf("o")} as publisher_name,
            case when p.publish_state = 'published' then p.published_domain end as publisher_domain,
            case when ${LAPSED} then 'lapsed' else r.status end as status, r.requested_scope, r.scope_descriptions, r.purpose, r.requested_expires_at, r.requested_expires_in, r.expires_at,
            coalesce(d.email, r.decided_user) as decided_by, coalesce(q.email, r.requested_user) as asked_by, t.approved_scope, t.cert_id, t.expires_at as ends_at,
            count(*) over ()::int as total
     from delegation_requests r
     join accounts h on h.account_id = r.account_id
     join agents b on b.agent_id = r.agent_id
     join connections n on n.connection_id = r.connection_id
     join platforms p on p.platform_id = ${platformOf("n")}
     left join accounts o on o.account_id = p.account_id and (p.publish_state = 'published' or n.product_id is not null)
     left join certificates t on t.request_id = r.request_id
     left join accounts d on d.account_id = r.decided_by
     left join accounts q on q.account_id = r.requested_by
     where r.account_id = :account_id and (r.request_id = any (:request_ids::text[]) ${omitted})
       and ${CONDITIONS[kind]}
     order by array_position(:request_ids::text[], r.request_id), ${TIMES[kind]}, r.request_id
     limit ${MOST}`,
    {
      person: person_id,
      account_id,
      request_ids,
      now,
      ...(omitted_since && { omittedSince: omitted_since }),
    },
  );
  return { subjects: rows, total: rows[0]?.total ?? 0 };
}
