import { addSeconds } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { MailingQueueRow } from "../../db/tables.ts";
import { CLAIM_SECONDS, RETRY_DELAYS } from "../mail/retries.ts";
import type { MailChoice, MailKind } from "./kinds.ts";

const MINUTE = 60;
const DAY = 24 * 3600;

/** Longest pause in seconds after a mail of the same kind about the same account to the same person. */
const LONGEST_PAUSE = 4 * 3600;

/** Longest delay in seconds before another attempt, and the longest time for which a mail is attempted. */
const LONGEST_DELAY = 15 * MINUTE;
const LONGEST_WAIT = 3 * DAY;

/** Maximum number of requests that one row lists. A row only counts further requests. */
const MOST_REQUESTS = 100;

/**
 * Seconds between two digests of reminders. A reminder is noted at least 23 hours before the request lapses.
 * This pause is shorter, so the digest also arrives before the request lapses.
 */
const REMINDERS = 20 * 3600;

/** Maximum number of topics for which one statement finds the recipients. */
const TOPICS = 100;
/** Maximum number of requests that one statement notes for reminders or lapses. */
const NOTED = 1_000;

/**
 * Records that people should get a mail about a request or a proposal of a product. The caller's transaction
 * decides whether they do. Takes no lock that another request needs.
 */
export async function noteMail(tx: Transaction, kind: MailKind, requestId: string, now: Date): Promise<void> {
  await tx("mail_topics").insert({ kind, request_id: requestId, created_at: now });
}

/**
 * Deletes the rows that only say that a person got a mail more than a day ago. They no longer delay a mail.
 */
export async function deleteIdle(db: Database, now: Date): Promise<void> {
  await db("mailing_queues")
    .whereNull("next_attempt_at")
    .where((idle) => idle.whereNull("mailed_at").orWhere("mailed_at", "<=", addSeconds(now, -DAY)))
    .delete();
}

const REMIND = `
with due as (
  update delegation_requests set reminded_at = :now
  where request_id in (
    select request_id from delegation_requests
    where status = 'pending' and reminded_at is null and expires_at > :now and expires_at <= :soon
    limit :count for update skip locked
  )
  returning request_id
), noted as (
  insert into mail_topics (kind, request_id, created_at) select 'request_lapses', request_id, :now from due
)
select count(*)::int as noted from due`;

/** Notes a reminder of each request that lapses within a day, once. */
export async function noteReminders(db: Database, now: Date): Promise<void> {
  await noteAll(db, REMIND, { now, soon: addSeconds(now, DAY) });
}

const NOTE_LAPSES = `
with due as (
  update delegation_requests set lapse_noted_at = :now
  where request_id in (
    select request_id from delegation_requests
    where status in ('pending', 'expired') and lapse_noted_at is null and expires_at <= :now and expires_at > :since
    limit :count for update skip locked
  )
  returning request_id
), noted as (
  insert into mail_topics (kind, request_id, created_at)
  select kind, request_id, :now from due cross join (values ('request_decided'), ('request_lapses')) as each (kind)
)
select count(*)::int as noted from due`;

/**
 * Notes each undecided request that lapsed, once. Its status may already be `expired`, because reading the
 * account's requests sets this status. Leaves out requests that lapsed so long ago that a mail would be
 * dropped.
 */
export async function noteLapses(db: Database, now: Date): Promise<void> {
  await noteAll(db, NOTE_LAPSES, { now, since: addSeconds(now, -LONGEST_WAIT) });
}

/** Repeats a statement until it notes less than a whole batch. */
async function noteAll(db: Database, statement: string, times: Record<string, Date>): Promise<void> {
  for (let noted = NOTED; noted === NOTED; ) {
    const { rows } = await db.raw<{ rows: [{ noted: number }] }>(statement, { ...times, count: NOTED });
    noted = rows[0].noted;
  }
}

const DECIDERS = `
select account_id as person from accounts where account_id = r.account_id and own_role in ('owner', 'approver')
union all
select account_id from organization_members where organization_id = r.account_id and role in ('owner', 'approver')`;

const CONNECTORS = `
select account_id as person from accounts where account_id = r.account_id and own_role = 'owner'
union all
select account_id from organization_members where organization_id = r.account_id
  and role in ('owner', case a.connecting when 'owners_and_approvers' then 'approver' end)`;

/** Locks rows in the order of {@link changeChoice}. */
const SPREAD = `
with topic as (
  delete from mail_topics where topic_id in (
    select topic_id from mail_topics order by topic_id limit :count for update skip locked
  )
  returning kind, request_id, topic_id, created_at
), wanted as (
  select p.person, r.account_id, p.kind, t.request_id, t.topic_id, t.created_at
  from topic t join delegation_requests r on r.request_id = t.request_id
  cross join lateral (
    select person, t.kind from (${DECIDERS}) as deciders where t.kind in ('request_waits', 'request_lapses')
    union all
    select r.requested_by, t.kind where t.kind = 'request_decided' and r.requested_by is distinct from r.decided_by
    union all
    select c.approved_by, t.kind from certificates c where c.request_id = r.request_id and t.kind = 'authority_lent'
    union all
    select account_id, 'channel' from request_channels where account_id = r.account_id and t.kind = 'request_waits'
  ) as p
  where p.person is not null
  union all
  select m.person, r.account_id, t.kind, t.request_id, t.topic_id, t.created_at
  from topic t
  join connect_proposals r on r.proposal_id = case when t.request_id ~ '^[0-9a-f-]{36}$' then t.request_id::uuid end
  join accounts a on a.account_id = r.account_id
  cross join lateral (
    select person from (${CONNECTORS}) as connectors where t.kind = 'product_proposed'
    union all
    select r.proposed_by where t.kind = 'request_decided'
  ) as m
), grouped as (
  select w.person, w.account_id, w.kind, array_agg(w.request_id order by w.topic_id) as ids
  from wanted w left join mail_choices c on c.account_id = w.person and c.kind = w.kind
  where coalesce(c.choice, 'every') <> 'off' group by w.person, w.account_id, w.kind
), spread as (
  insert into mailing_queues as m
    (person_id, account_id, kind, request_ids, omitted, omitted_since, due_at, next_attempt_at)
  select person, account_id, kind, ids[1:${MOST_REQUESTS}], greatest(cardinality(ids) - ${MOST_REQUESTS}, 0),
    case when cardinality(ids) > ${MOST_REQUESTS} then (select min(created_at) from wanted) end, :now, :now
  from grouped order by person, kind, account_id
  on conflict (person_id, kind, account_id) do update set
    request_ids = (m.request_ids || excluded.request_ids)[1:${MOST_REQUESTS}],
    omitted = m.omitted + excluded.omitted
      + greatest(cardinality(m.request_ids) + cardinality(excluded.request_ids) - ${MOST_REQUESTS}, 0),
    omitted_since = case
      when m.omitted = 0 and excluded.omitted = 0
        and cardinality(m.request_ids) + cardinality(excluded.request_ids) <= ${MOST_REQUESTS} then null
      else least(m.omitted_since, (select min(created_at) from wanted)) end,
    due_at = coalesce(m.due_at, greatest(:now, m.paced_until)),
    next_attempt_at = coalesce(m.next_attempt_at, greatest(:now, m.paced_until))
)
select count(*)::int as topics from topic`;

/** Finds the people who get a mail about each topic. Returns whether there may be more topics. */
export async function spreadTopics(db: Database, now: Date): Promise<boolean> {
  const { rows } = await db.raw<{ rows: [{ topics: number }] }>(SPREAD, { count: TOPICS, now });
  return rows[0].topics === TOPICS;
}

/**
 * A mail or a message to a channel, which this process may send until its claim expires. `attempts` includes
 * this attempt.
 */
export type ClaimedMailing = Omit<MailingQueueRow, "due_at" | "next_attempt_at" | "paced_until"> & {
  due_at: Date;
  choice: MailChoice;
};

/** A mail to a person about an account. */
export type ClaimedMail = ClaimedMailing & { kind: MailKind; email: string };

const CLAIM = (kinds: string) => `
with due as (
  select person_id, account_id, kind from mailing_queues where next_attempt_at <= :now and ${kinds}
  order by next_attempt_at limit :count for update skip locked
)
update mailing_queues m set attempts = m.attempts + 1, next_attempt_at = :until
from due d
join accounts a on a.account_id = d.person_id
left join mail_choices c on c.account_id = d.person_id and c.kind = d.kind
where m.person_id = d.person_id and m.account_id = d.account_id and m.kind = d.kind
returning m.person_id, m.account_id, m.kind, a.email, coalesce(c.choice, 'every') as choice, m.request_ids,
  m.omitted, m.omitted_since, m.attempts, m.due_at, m.mailed_at, m.streak`;

/**
 * Claims up to `count` mails that are due. A claim counts as an attempt even if the process dies. The mail is
 * then due again when the claim expires.
 */
export function claimMails(db: Database, count: number, now: Date): Promise<ClaimedMail[]> {
  return claim(db, CLAIM("kind <> 'channel'"), count, now);
}

/** Claims up to `count` messages to channels that are due, as {@link claimMails} does. */
export function claimPosts(db: Database, count: number, now: Date): Promise<ClaimedMailing[]> {
  return claim(db, CLAIM("kind = 'channel'"), count, now);
}

async function claim<T>(db: Database, statement: string, count: number, now: Date): Promise<T[]> {
  const { rows } = await db.raw(statement, { count, now, until: addSeconds(now, CLAIM_SECONDS) });
  return rows;
}

/**
 * Removes what a mail mentioned. The rest becomes due at `next`. Reads the row only as it is when its lock is
 * held: another process may have added requests while this one waited for the lock.
 */
const SETTLE = `
update mailing_queues set attempts = 0, mailed_at = :mailedAt, streak = :streak, paced_until = :pacedUntil,
  request_ids = array(select id from unnest(request_ids) with ordinality as each (id, place)
                      where id <> all (:done::text[]) order by place),
  omitted = omitted - :counted,
  omitted_since = case when omitted > :counted then omitted_since end,
  due_at = case when request_ids <@ :done::text[] and omitted = :counted then null else :next::timestamptz end,
  next_attempt_at = case when request_ids <@ :done::text[] and omitted = :counted then null else :next::timestamptz end
where person_id = :person_id and account_id = :account_id and kind = :kind
  and attempts = :attempts and next_attempt_at is not null`;

/** Records that a mail was sent, unless this claim expired and another process claimed the mail. */
export async function recordMailed(db: Database, mailing: ClaimedMailing, now: Date): Promise<void> {
  const streak = streakAfter(mailing, now);
  const pacedUntil = pacedAfter(mailing, { mailedAt: now, streak });
  await db.raw(SETTLE, { ...handled(mailing), mailedAt: now, streak, pacedUntil, next: pacedUntil });
}

/** Records that nothing that waited needs a mail any more, for example because others decided. */
export async function recordNeedless(db: Database, mailing: ClaimedMailing, now: Date): Promise<void> {
  const { mailed_at: mailedAt, streak } = mailing;
  const pacedUntil = mailedAt === null ? null : pacedAfter(mailing, { mailedAt, streak });
  await db.raw(SETTLE, { ...handled(mailing), mailedAt, streak, pacedUntil, next: pacedUntil ?? now });
}

/** Identifies the claimed row and what the mail was about, as values of {@link SETTLE}. */
function handled({ person_id, account_id, kind, attempts, request_ids, omitted }: ClaimedMailing) {
  return { person_id, account_id, kind, attempts, done: request_ids, counted: omitted };
}

/**
 * Records a failed attempt. The mail is due again after the next delay, at most a quarter of an hour, so that
 * it does not wait long after the mail server works again. What has waited for three days is dropped.
 */
export async function recordUnmailed(
  db: Database,
  mailing: ClaimedMailing,
  now: Date,
): Promise<"waiting" | "failed"> {
  const { person_id, account_id, kind, attempts, due_at } = mailing;
  if (now >= addSeconds(due_at, LONGEST_WAIT)) {
    await recordNeedless(db, mailing, now);
    return "failed";
  }
  const delay = Math.min(RETRY_DELAYS[attempts - 1] ?? LONGEST_DELAY, LONGEST_DELAY);
  await db("mailing_queues")
    .where({ person_id, account_id, kind, attempts })
    .whereNotNull("next_attempt_at")
    .update({ next_attempt_at: addSeconds(now, delay) });
  return "waiting";
}

/** Counts the mails of a kind about an account without a quiet day between them. */
function streakAfter({ mailed_at, streak }: ClaimedMailing, now: Date): number {
  return mailed_at !== null && now < addSeconds(mailed_at, DAY) ? streak + 1 : 1;
}

/** The last mail of a kind to a person about an account, and how many came without a quiet day between. */
type LastMail = { mailedAt: Date; streak: number };

/**
 * Returns when the next mail of this kind about the same account may go to the same person. The pauses
 * double from a minute to four hours. So a person gets at most 14 mails of a kind about an account in a day.
 */
export function pacedAfter(
  { kind, choice }: Pick<ClaimedMailing, "kind" | "choice">,
  { mailedAt, streak }: LastMail,
): Date {
  const digest = kind === "request_lapses" ? REMINDERS : DAY;
  const pause = choice === "daily" ? digest : Math.min(MINUTE * 2 ** Math.min(streak - 1, 10), LONGEST_PAUSE);
  return addSeconds(mailedAt, pause);
}
