import { addSeconds } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { CLAIM_SECONDS, RETRY_DELAYS } from "../mail/retries.ts";
import type { MailChoice, MailKind } from "./kinds.ts";

const MINUTE = 60;
const DAY = 24 * 3600;

/** Longest pause in seconds after a mail of the same kind to the same person. */
const LONGEST_PAUSE = 4 * 3600;

/** Longest delay in seconds before another attempt, and the longest time for which a mail is attempted. */
const LONGEST_DELAY = 15 * MINUTE;
const LONGEST_WAIT = 3 * DAY;

/** The most requests that one mail mentions. */
const MOST_REQUESTS = 100;

/** Number of topics that one step spreads to people. */
const TOPICS = 100;

/**
 * Records that people should get a mail about a request. The caller's transaction decides whether they do.
 * Takes no lock that another request needs.
 */
export async function noteMail(tx: Transaction, kind: MailKind, requestId: string, now: Date): Promise<void> {
  await tx("mail_topics").insert({ kind, request_id: requestId, created_at: now });
}

const REMIND = `
with due as (
  update delegation_requests set reminded_at = :now
  where request_id in (
    select request_id from delegation_requests
    where status = 'pending' and reminded_at is null and expires_at > :now and expires_at <= :soon
    limit 1000 for update skip locked
  )
  returning request_id
)
insert into mail_topics (kind, request_id, created_at) select 'request_lapses', request_id, :now from due`;

/** Notes a reminder of each request that lapses within a day, once. */
export async function noteReminders(db: Database, now: Date): Promise<void> {
  await db.raw(REMIND, { now, soon: addSeconds(now, DAY) });
}

const DECIDERS = `
select account_id as person from accounts where account_id = r.account_id and own_role in ('owner', 'approver')
union all
select account_id from organization_members where organization_id = r.account_id and role in ('owner', 'approver')`;

const SPREAD = `
with topic as (
  delete from mail_topics where topic_id in (
    select topic_id from mail_topics order by topic_id limit :count for update skip locked
  )
  returning kind, request_id, topic_id
), wanted as (
  select p.person, t.kind, t.request_id, t.topic_id
  from topic t join delegation_requests r on r.request_id = t.request_id
  cross join lateral (
    select person from (${DECIDERS}) as deciders where t.kind in ('request_waits', 'request_lapses')
    union all
    select r.requested_by where t.kind = 'request_decided' and r.requested_by is distinct from r.decided_by
    union all
    select c.approved_by from certificates c where c.request_id = r.request_id and t.kind = 'authority_lent'
  ) as p
  where p.person is not null
), spread as (
  insert into mailings as m (account_id, kind, request_ids, due_at, next_attempt_at)
  select person, kind, (array_agg(request_id order by topic_id))[1:${MOST_REQUESTS}], :now, :now
  from wanted group by person, kind order by person, kind
  on conflict (account_id, kind) do update set
    request_ids = (m.request_ids || excluded.request_ids)[1:${MOST_REQUESTS}],
    due_at = coalesce(m.due_at, greatest(:now, m.paced_until)),
    next_attempt_at = coalesce(m.next_attempt_at, greatest(:now, m.paced_until))
  where m.choice <> 'off'
)
select count(*)::int as topics from topic`;

/** Finds the people who get a mail about each topic. Returns whether there may be more topics. */
export async function spreadTopics(db: Database, now: Date): Promise<boolean> {
  const { rows } = await db.raw<{ rows: [{ topics: number }] }>(SPREAD, { count: TOPICS, now });
  return rows[0].topics === TOPICS;
}

/** A mail that this process may send until its claim expires. `attempts` includes this attempt. */
export type ClaimedMailing = {
  account_id: string;
  kind: MailKind;
  email: string;
  choice: MailChoice;
  request_ids: string[];
  attempts: number;
  due_at: Date;
  mailed_at: Date | null;
  streak: number;
};

const CLAIM = `
with due as (
  select account_id, kind from mailings where next_attempt_at <= :now
  order by next_attempt_at limit :count for update skip locked
)
update mailings m set attempts = m.attempts + 1, next_attempt_at = :until
from due, accounts a
where m.account_id = due.account_id and m.kind = due.kind and a.account_id = m.account_id
returning m.account_id, m.kind, a.email, m.choice, m.request_ids, m.attempts, m.due_at, m.mailed_at, m.streak`;

/**
 * Claims up to `count` mails that are due. A claim counts as an attempt even if the process dies. The mail is
 * then due again when the claim expires.
 */
export async function claimMailings(db: Database, count: number, now: Date): Promise<ClaimedMailing[]> {
  const { rows } = await db.raw(CLAIM, { count, now, until: addSeconds(now, CLAIM_SECONDS) });
  return rows;
}

/**
 * Removes what a mail mentioned. The rest becomes due at `next`. Reads the row only as it is when its lock is
 * held: another process may have added requests while this one waited for the lock.
 */
const SETTLE = `
update mailings set attempts = 0, mailed_at = :mailedAt, streak = :streak, paced_until = :pacedUntil,
  request_ids = array(select id from unnest(request_ids) with ordinality as each (id, place)
                      where id <> all (:done::text[]) order by place),
  due_at = case when request_ids <@ :done::text[] then null else :next::timestamptz end,
  next_attempt_at = case when request_ids <@ :done::text[] then null else :next::timestamptz end
where account_id = :account_id and kind = :kind and attempts = :attempts and next_attempt_at is not null`;

/** Records that a mail was sent, unless this claim expired and another process claimed the mail. */
export async function recordMailed(db: Database, mailing: ClaimedMailing, now: Date): Promise<void> {
  const { account_id, kind, attempts, request_ids, choice } = mailing;
  const streak = streakAfter(mailing, now);
  const pacedUntil = pacedAfter(choice, { mailedAt: now, streak });
  const own = { account_id, kind, attempts, done: request_ids };
  await db.raw(SETTLE, { ...own, mailedAt: now, streak, pacedUntil, next: pacedUntil });
}

/** Records that nothing that waited needs a mail any more, for example because others decided. */
export async function recordNeedless(db: Database, mailing: ClaimedMailing, now: Date): Promise<void> {
  const { account_id, kind, attempts, request_ids, choice, mailed_at: mailedAt, streak } = mailing;
  const pacedUntil = mailedAt === null ? null : pacedAfter(choice, { mailedAt, streak });
  const own = { account_id, kind, attempts, done: request_ids };
  await db.raw(SETTLE, { ...own, mailedAt, streak, pacedUntil, next: pacedUntil ?? now });
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
  const { account_id, kind, attempts, due_at } = mailing;
  if (now >= addSeconds(due_at, LONGEST_WAIT)) {
    await recordNeedless(db, mailing, now);
    return "failed";
  }
  const delay = Math.min(RETRY_DELAYS[attempts - 1] ?? LONGEST_DELAY, LONGEST_DELAY);
  await db("mailings")
    .where({ account_id, kind, attempts })
    .whereNotNull("next_attempt_at")
    .update({ next_attempt_at: addSeconds(now, delay) });
  return "waiting";
}

/** Counts the mails of a kind without a quiet day between them. */
function streakAfter({ mailed_at, streak }: ClaimedMailing, now: Date): number {
  return mailed_at !== null && now < addSeconds(mailed_at, DAY) ? streak + 1 : 1;
}

/** The last mail of a kind to a person, and how many followed each other without a quiet day. */
type LastMail = { mailedAt: Date; streak: number };

/**
 * Returns when the next mail of this kind may go to the same person. The pauses double from a minute to four
 * hours, so however many requests there are, a person gets at most 14 mails of a kind in a day.
 */
export function pacedAfter(choice: MailChoice, { mailedAt, streak }: LastMail): Date {
  const pause = choice === "daily" ? DAY : Math.min(MINUTE * 2 ** Math.min(streak - 1, 10), LONGEST_PAUSE);
  return addSeconds(mailedAt, pause);
}

/** Returns how often a person gets each kind of mail. A kind without an entry is mailed every time. */
export async function readChoices(
  db: Database,
  accountId: string,
): Promise<Partial<Record<MailKind, MailChoice>>> {
  const rows = await db("mailings").where({ account_id: accountId }).select("kind", "choice");
  return Object.fromEntries(rows.map(({ kind, choice }) => [kind, choice]));
}

/** Changes how often a person gets a kind of mail. With `off`, what waits is dropped. */
export async function changeChoice(
  tx: Transaction,
  { accountId, kind, choice, now }: { accountId: string; kind: MailKind; choice: MailChoice; now: Date },
): Promise<void> {
  const key = { account_id: accountId, kind };
  await tx("mailings")
    .insert({ ...key, choice })
    .onConflict(["account_id", "kind"])
    .ignore();
  const row = await tx("mailings").where(key).forUpdate().first();
  if (row === undefined) throw new Error("The choice disappeared during the call");
  if (row.choice === choice) return;
  const { mailed_at: mailedAt, streak, due_at, attempts } = row;
  const paced = mailedAt === null ? null : pacedAfter(choice, { mailedAt, streak });
  const dropped = { request_ids: [], due_at: null, next_attempt_at: null, attempts: 0 };
  const due = due_at === null ? null : new Date(Math.max(now.getTime(), paced?.getTime() ?? 0));
  // A mail that is being attempted keeps its time, so that no other process attempts it too.
  const moved = attempts > 0 ? {} : { due_at: due, next_attempt_at: due };
  const waiting = choice === "off" ? dropped : moved;
  await tx("mailings")
    .where(key)
    .update({ choice, paced_until: paced, ...waiting });
}
