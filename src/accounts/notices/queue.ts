import { addSeconds, type Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import type { Consumer } from "../../events/bus.ts";
import { isAccountEventType, readAccountEvent } from "../../events/kinds.ts";
import type { Reader } from "../../events/published.ts";
import { CLAIM_SECONDS, RETRY_DELAYS } from "../mail/retries.ts";
import { LINK_TYPE } from "./links.ts";

/** A notice that this process may send until its claim expires. `attempts` includes this attempt. */
export type ClaimedNotice = {
  event_id: string;
  type: string;
  payload: string;
  attempts: number;
  email: string;
  organization_name: string | null;
};

const CLAIM = `
with due as (
  select event_id from notices where state = 'waiting' and next_attempt_at <= :now
  order by next_attempt_at limit :count for update skip locked
)
update notices n set attempts = n.attempts + 1, next_attempt_at = :until
from due, accounts a
where n.event_id = due.event_id and a.account_id = n.account_id
returning n.event_id, n.type, n.payload, n.attempts, a.organization_name,
  -- If the account that opened an organization is no longer an owner, the oldest owner receives the mail.
  -- A notice about a link names its recipient.
  coalesce(
    case when a.own_role = 'owner' or n.type = '${LINK_TYPE}' then a.email end,
    (select o.email from organization_members m join accounts o on o.account_id = m.account_id
      where m.organization_id = a.account_id and m.role = 'owner' order by m.joined_at limit 1),
    a.email
  ) as email`;

/**
 * Claims up to `count` notices that are due, longest overdue first. A claim counts as an attempt even if the
 * process dies. The notice is then due again when the claim expires.
 */
export async function claimNotices(db: Database, count: number, now: Date): Promise<ClaimedNotice[]> {
  const { rows } = await db.raw(CLAIM, { count, now, until: addSeconds(now, CLAIM_SECONDS) });
  return rows;
}

/** Records that a notice was sent, unless this claim expired and another process claimed the notice. */
export async function recordSent(db: Database, notice: ClaimedNotice, now: Date): Promise<void> {
  await own(db, notice).update({ state: "sent", next_attempt_at: null, settled_at: now });
}

/**
 * Records a failed attempt. The notice is due again after the next delay, or has failed after the last
 * attempt.
 */
export async function recordFailure(
  db: Database,
  notice: ClaimedNotice,
  now: Date,
): Promise<"waiting" | "failed"> {
  const delay = RETRY_DELAYS[notice.attempts - 1];
  if (delay === undefined) {
    await own(db, notice).update({ state: "failed", next_attempt_at: null, settled_at: now });
    return "failed";
  }
  await own(db, notice).update({ next_attempt_at: addSeconds(now, delay) });
  return "waiting";
}

function own(db: Database, { event_id, attempts }: ClaimedNotice) {
  return db("notices").where({ event_id, attempts, state: "waiting" });
}

/** Returns how many notices and mails about requests are due, and for how many seconds the oldest one is. */
export async function readWaiting(
  db: Database,
  now: Date,
): Promise<{ waiting: number; oldestSeconds: number }> {
  const { rows } = await db.raw(
    `select count(*) as waiting, min(due_at) as oldest from (
       select created_at as due_at from notices where state = 'waiting'
       union all select due_at from mailing_queues where due_at <= :now and kind <> 'channel'
     ) as due`,
    { now },
  );
  const { waiting, oldest } = rows[0] as { waiting: number; oldest: Date | null };
  const oldestSeconds = oldest === null ? 0 : Math.max(0, (now.getTime() - oldest.getTime()) / 1000);
  return { waiting, oldestSeconds };
}

/** The notice consumer's name and the events that it reads. */
export const noticeReader = { name: "notices", aggregateTypes: ["account"] } as const satisfies Reader;

/**
 * Creates the consumer that stores one notice, due immediately, for each account event. It sends nothing:
 * only the role with access to the mail server sends. It ignores event types that this version does not know,
 * and throws for an invalid payload.
 */
export function createNoticeConsumer({ clock }: { clock: Clock }): Consumer {
  return {
    ...noticeReader,
    async handle(tx, events) {
      const now = clock.now();
      const rows = events.flatMap(({ eventId, type, aggregateId, payload, createdAt }) => {
        if (!isAccountEventType(type)) return [];
        readAccountEvent(type, payload);
        return [
          {
            event_id: eventId,
            account_id: aggregateId,
            type,
            payload,
            state: "waiting" as const,
            next_attempt_at: now,
            created_at: createdAt,
          },
        ];
      });
      if (rows.length > 0) await tx("notices").insert(rows).onConflict("event_id").ignore();
    },
  };
}
