import { addSeconds } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { OwnConnectionRow } from "../db/key_tables.ts";
import type { WebhookDeliveryRow } from "../db/tables.ts";
import { laneOf, startOfLane } from "./lanes.ts";
import { MAX_ATTEMPTS } from "./retries_and_suspension.ts";

const SECRET_COLUMNS = [
  "connection_id",
  "webhook_secret_sealed",
  "webhook_next_secret_sealed",
  "webhook_former_secret_sealed",
  "webhook_former_until",
] as const satisfies (keyof OwnConnectionRow)[];

/** A connection's encrypted webhook secrets. */
export type BoxedSecrets = Pick<OwnConnectionRow, (typeof SECRET_COLUMNS)[number]>;

/** Returns an own connection's webhook secrets, or `undefined` if it does not exist. */
export async function readSecrets(
  database: Database,
  connectionId: string,
): Promise<BoxedSecrets | undefined> {
  return database<OwnConnectionRow>("connections")
    .where({ connection_id: connectionId })
    .whereNotNull("platform_id")
    .first(SECRET_COLUMNS);
}

/** A delivery that this worker may attempt until `lease_until`, and its URL. */
export type Claimed = WebhookDeliveryRow &
  BoxedSecrets & {
    lease_token: string;
    lease_until: Date;
    callback_url: string | null;
  };

/** Seconds that a claim lasts: longer than an attempt and writing its result. */
export const CLAIM_SECONDS = 60;

const FIRST = `d.state in ('pending', 'sending') and d.attempts = case d.state when 'sending' then 1 else 0 end`;
const DUE = `state = 'pending' and next_attempt_at <= :now`;

/**
 * SQL for the first delivery, which was never tried or is being tried, of each lane of the endpoint `e`. `of`
 * limits `aggregate_seq`. Postgres computes only the rows that the caller reads.
 */
function heads(of: string): string {
  const next = (from: string) => `
    select d.delivery_id, d.aggregate_seq, d.state, d.next_attempt_at from webhook_deliveries d
    where d.endpoint_id = e.endpoint_id and ${FIRST} and ${of}${from} order by d.aggregate_seq limit 1`;
  const later = ` and d.aggregate_seq >= ${startOfLane(`${laneOf("h.aggregate_seq")} + 1`)}`;
  return `(with recursive h as ((${next("")}) union all select n.* from h cross join lateral (${next(later)}) n)
    select * from h where ${DUE})`;
}

const SERVED = startOfLane("e.served_lane + 1");

/*
 * The parts of the claim:
 *
 * - `waiting`: endpoints with a pending delivery (one index probe for each)
 * - `seen`: endpoints that may receive a request now, with their free capacity, the longest unserved endpoint
 *   first
 * - `locked`: the same endpoints, if they are still active and `claims` shows that no other worker has
 *   claimed from them
 * - `picked`: their due deliveries, in rounds: the first of every endpoint before the second of any
 *
 * Retries and resent deliveries of an endpoint run concurrently. Of the deliveries of a connection that were
 * never tried, only the oldest (its head) may start, which keeps the order of events. The connections of an
 * endpoint take turns (`served_lane`), so that none waits for the backlogs of others. If the endpoint has
 * capacity for other deliveries too (`is_well`), heads precede resent deliveries. Otherwise the delivery that
 * has been due longest comes first.
 */
const CLAIM = `
with recursive waiting (endpoint_id) as (
  (select endpoint_id from webhook_deliveries where state = 'pending' order by endpoint_id limit 1)
  union all
  select (select d.endpoint_id from webhook_deliveries d
          where d.state = 'pending' and d.endpoint_id > w.endpoint_id order by d.endpoint_id limit 1)
  from waiting w where w.endpoint_id is not null
), seen as materialized (
  select e.endpoint_id, e.claims, e.claimed_at, e.served_lane, load.room,
         e.concurrency > 1 and e.breaker_open_until is null as is_well
  from waiting w
  join webhook_endpoints e on e.endpoint_id = w.endpoint_id
  cross join lateral (
    select case when e.breaker_open_until is null then e.concurrency else 1 end - count(*) as room
    from webhook_deliveries d where d.endpoint_id = e.endpoint_id and d.state = 'sending') load
  where e.state = 'active' and e.discard_through is null
    and (e.breaker_open_until is null or e.breaker_open_until <= :now)
    and load.room > 0
    and (exists (select from ${heads("true")} d) or exists (
      select from webhook_deliveries d where d.endpoint_id = e.endpoint_id
      and d.state = 'pending' and d.attempts > 0 and d.next_attempt_at <= :now))
  order by e.claimed_at limit :free
), locked as (
  select e.endpoint_id, s.room, s.served_lane, s.is_well from webhook_endpoints e
  join seen s on s.endpoint_id = e.endpoint_id and s.claims = e.claims
  where e.state = 'active' and e.discard_through is null
  order by e.endpoint_id for update of e skip locked
), picked as (
  select e.endpoint_id, due.delivery_id, due.next_attempt_at, due.lane, due.place,
         row_number() over (partition by e.endpoint_id
           order by due.is_first desc, case when due.is_first then due.place end, due.next_attempt_at) as turn
  from locked e cross join lateral (
    select * from (
      select delivery_id, next_attempt_at, e.is_well as is_first, place, ${laneOf("aggregate_seq")} as lane
      from (select turns.*, row_number() over () as place from (
        select * from ${heads(`d.aggregate_seq >= ${SERVED}`)} after
        union all
        select * from ${heads(`d.aggregate_seq < ${SERVED}`)} before
        limit e.room) turns) first
      union all
      (select d.delivery_id, d.next_attempt_at, false, null, null from webhook_deliveries d
       where d.endpoint_id = e.endpoint_id and d.state = 'pending' and d.attempts > 0 and d.next_attempt_at <= :now
       order by d.next_attempt_at limit e.room)) either
    order by is_first desc, case when is_first then place end, next_attempt_at limit e.room) due
  order by turn, due.next_attempt_at limit :free
), marked as (
  update webhook_endpoints e set claims = e.claims + 1, claimed_at = :now, served_lane = coalesce(p.lane, e.served_lane)
  from (select endpoint_id, (array_agg(lane order by place desc) filter (where lane is not null))[1] as lane
        from picked group by endpoint_id) p
  where e.endpoint_id = p.endpoint_id
), claimed as (
  update webhook_deliveries d set state = 'sending', attempts = d.attempts + 1, next_attempt_at = null,
         lease_token = gen_random_uuid(), lease_until = :leaseUntil
  from picked p where d.delivery_id = p.delivery_id and d.state = 'pending'
  returning d.*
)
select claimed.*, c.callback_url, ${SECRET_COLUMNS.map((column) => `c.${column}`).join(", ")}
from claimed
join webhook_endpoints e on e.endpoint_id = claimed.endpoint_id
join connections c on c.connection_id = e.connection_id`;

/**
 * Claims up to `free` due deliveries, fairly between endpoints and within each endpoint's limit of concurrent
 * requests. A claim counts as an attempt even if the worker dies.
 */
export async function claimDeliveries(
  database: Database,
  free: number,
  now: Date,
  seconds = CLAIM_SECONDS,
): Promise<Claimed[]> {
  const leaseUntil = addSeconds(now, seconds);
  const { rows } = await database.raw(CLAIM, { free, now, leaseUntil });
  return rows;
}

/** Limits the attempts of a delivery that makes the worker crash each time. */
const MOST_ATTEMPTS = 2 * MAX_ATTEMPTS;

const REAP = `
with lost as (
  select d.delivery_id, d.attempts, d.schedule_start, d.lease_until, e.state as endpoint_state
  from webhook_deliveries d join webhook_endpoints e on e.endpoint_id = d.endpoint_id
  where d.state = 'sending' and d.lease_until <= :now order by d.lease_until limit 500
  for update of d skip locked for share of e skip locked
), noted as (
  insert into webhook_attempts (delivery_id, attempt, started_at, ended_at, outcome)
  select delivery_id, attempts, lease_until - make_interval(secs => :seconds), lease_until, 'lost' from lost
  on conflict do nothing
), future as (
  select delivery_id, case when attempts - schedule_start >= ${MOST_ATTEMPTS} then 'failed'
         when endpoint_state <> 'active' then 'held' else 'pending' end as state
  from lost
)
update webhook_deliveries d set state = future.state, lease_token = null, lease_until = null,
  next_attempt_at = case when future.state = 'pending' then cast(:now as timestamptz) end,
  settled_at = case when future.state = 'failed' then cast(:now as timestamptz) end
from future where d.delivery_id = future.delivery_id`;

/**
 * Frees deliveries whose claim expired without a result, `seconds` after they were claimed. Returns their
 * number. They are tried again immediately with the same ids, or held if the endpoint is paused or suspended.
 * The statement locks the endpoint's row, so that it holds no delivery of an endpoint that was just resumed.
 */
export async function reapLost(database: Database, now: Date, seconds = CLAIM_SECONDS): Promise<number> {
  const { rowCount } = await database.raw(REAP, { now, seconds });
  return rowCount ?? 0;
}
