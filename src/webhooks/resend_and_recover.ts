import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import type { WebhookDeliveryRow } from "../db/tables.ts";

/** A delivery with this many attempts, over all schedules, is not resent. */
export const RESEND_ATTEMPTS = 50;

type ResendRefusal =
  | "no_callback"
  | "callback_inactive"
  | "delivery_under_way"
  | "delivery_body_erased"
  | "delivery_limit";

/** The properties that decide whether a delivery can be resent. */
export type Resendable = Pick<WebhookDeliveryRow, "state" | "attempts" | "next_attempt_at"> & {
  /** False if the body was erased. */
  has_body: boolean;
  callback_url: string | null;
  /** True if the endpoint is neither paused nor suspended, and no backlog is being discarded. */
  is_active: boolean;
};

/** Returns whether a tried delivery waits for an attempt in the future. */
export function waitsForRetry(
  { state, attempts, next_attempt_at }: Pick<Resendable, "state" | "attempts" | "next_attempt_at">,
  now: Date,
): boolean {
  return state === "pending" && attempts > 0 && next_attempt_at !== null && next_attempt_at > now;
}

/** Returns why a delivery cannot be sent now, or `undefined` if it can. */
export function resendRefusal(delivery: Resendable, now: Date): ResendRefusal | undefined {
  const { state, attempts, has_body, callback_url, is_active } = delivery;
  if (callback_url === null) return "no_callback";
  if (!is_active) return "callback_inactive";
  const isUnderWay = state === "pending" || state === "sending" || state === "held";
  if (isUnderWay && !waitsForRetry(delivery, now)) return "delivery_under_way";
  if (!has_body) return "delivery_body_erased";
  return attempts >= RESEND_ATTEMPTS ? "delivery_limit" : undefined;
}

/**
 * Sets a delivery that is finished or waits for a retry to be sent now, with the same id and bytes and a new
 * retry schedule. It neither waits for deliveries that were never tried nor delays them. Returns the reason
 * if it cannot be sent, or `not_found` if the endpoint has no such delivery.
 */
export async function resendDelivery(
  tx: Transaction,
  endpointId: string,
  deliveryId: string,
  now: Date,
): Promise<ResendRefusal | "not_found" | undefined> {
  const endpoint = await tx("webhook_endpoints")
    .where({ endpoint_id: endpointId })
    .forShare()
    .first("state", "connection_id", "discard_through");
  if (endpoint === undefined) return "not_found";
  const [delivery] = await tx("webhook_deliveries")
    .where({ delivery_id: deliveryId, endpoint_id: endpointId })
    .forUpdate()
    .select<Omit<Resendable, "callback_url" | "is_active">[]>(
      "state",
      "attempts",
      "next_attempt_at",
      tx.raw("num_nonnulls(body, body_sealed) = 1 as has_body"),
    );
  if (delivery === undefined) return "not_found";
  const connection = await tx("connections")
    .where({ connection_id: endpoint.connection_id })
    .first("callback_url");
  const refusal = resendRefusal(
    {
      ...delivery,
      callback_url: connection?.callback_url ?? null,
      is_active: endpoint.state === "active" && endpoint.discard_through === null,
    },
    now,
  );
  if (refusal !== undefined) return refusal;
  await tx("webhook_deliveries")
    .where({ delivery_id: deliveryId })
    .update({
      state: "pending",
      next_attempt_at: now,
      settled_at: null,
      schedule_start: tx.ref("attempts") as never,
    });
  return undefined;
}

/** The number of deliveries that one step examines. */
export const STEP_EXAMINES = 500;
/** A recovery pauses while this many resent deliveries are due at its endpoint. */
export const MOST_DUE = 50;

const DUE = `
(select count(*) from (
  select from webhook_deliveries d where d.endpoint_id = r.endpoint_id and d.state = 'pending' and d.attempts > 0
  and d.next_attempt_at <= :now limit ${MOST_DUE}) as due)`;

/*
 * Selects the recovery that has waited longest, of those whose endpoint receives requests and has few due
 * deliveries. Also selects a recovery of a removed connection, which then ends.
 */
const NEXT = `
select r.recovery_id, r.endpoint_id, c.removed_at is not null as removed
from webhook_recoveries r
join webhook_endpoints e on e.endpoint_id = r.endpoint_id
join connections c on c.connection_id = e.connection_id
where r.finished_at is null and (c.removed_at is not null or (
  e.state = 'active' and e.discard_through is null and c.callback_url is not null
  and (e.breaker_open_until is null or e.breaker_open_until <= :now) and ${DUE} < ${MOST_DUE}))
order by r.stepped_at limit 1`;

/*
 * The parts of a step:
 *
 * - `page`: the next deliveries of the range by time of creation. `wanted` is true for a delivery to resend
 * - `taken`: the first rows of `page`, as many as there is room for their wanted deliveries
 * - `resent`: the wanted deliveries that no other process has changed meanwhile, set to pending as in
 *   `resendDelivery`
 *
 * The same statement records the position reached, so each step takes effect once, even after a crash.
 */
const STEP = `
with room as materialized (
  select ${MOST_DUE} - ${DUE} as count from webhook_recoveries r where r.recovery_id = :recoveryId
), page as materialized (
  select d.delivery_id, d.created_at, d.state = any (r.states) as asked,
         d.state = any (r.states) and num_nonnulls(d.body, d.body_sealed) = 1 and d.attempts < ${RESEND_ATTEMPTS} as wanted
  from webhook_recoveries r cross join lateral (
    select * from webhook_deliveries d
    where d.endpoint_id = r.endpoint_id and (d.created_at, d.delivery_id) > (r.seen_at, r.seen_id)
      and d.created_at < r.until
    order by d.created_at, d.delivery_id limit ${STEP_EXAMINES}) d
  where r.recovery_id = :recoveryId
), counted as (
  select page.*, count(*) filter (where wanted) over (order by created_at, delivery_id) as place from page
), taken as materialized (
  select * from counted where place <= (select count from room)
), locked as (
  select d.delivery_id from webhook_deliveries d
  where d.delivery_id in (select delivery_id from taken where wanted)
    and d.state = any (array(select unnest(states) from webhook_recoveries where recovery_id = :recoveryId))
    and num_nonnulls(d.body, d.body_sealed) = 1
  for update of d skip locked
), resent as (
  update webhook_deliveries d set state = 'pending', next_attempt_at = :now, settled_at = null, schedule_start = d.attempts
  from locked where d.delivery_id = locked.delivery_id
  returning d.delivery_id
), last as (
  select created_at, delivery_id from taken order by created_at desc, delivery_id desc limit 1
), counts as (
  select (select count(*) from page) as page, (select count(*) from taken) as taken,
         (select count(*) from taken where asked) as asked, (select count(*) from resent) as resent
)
update webhook_recoveries r set
  seen_at = coalesce((select created_at from last), r.seen_at),
  seen_id = coalesce((select delivery_id from last), r.seen_id),
  examined = r.examined + counts.taken, resent = r.resent + counts.resent,
  left_out = r.left_out + counts.asked - counts.resent, stepped_at = :now,
  state = case when counts.page < ${STEP_EXAMINES} and counts.taken = counts.page then 'done' else 'running' end,
  finished_at = case when counts.page < ${STEP_EXAMINES} and counts.taken = counts.page then cast(:now as timestamptz) end
from counts where r.recovery_id = :recoveryId`;

/**
 * Runs one step of one recovery. Returns whether there was a recovery to run. A step resends at most 50
 * deliveries, minus those already due at the endpoint, which limits the delay of new events. Any number of
 * workers may call this function concurrently.
 */
export async function stepRecovery({
  database,
  clock,
}: {
  database: Database;
  clock: Clock;
}): Promise<boolean> {
  const now = clock.now();
  const { rows } = await database.raw(NEXT, { now });
  const [next] = rows as { recovery_id: string; endpoint_id: string; removed: boolean }[];
  if (next === undefined) return false;
  await database.transaction(async (tx) => {
    const endpoint = await tx("webhook_endpoints")
      .where({ endpoint_id: next.endpoint_id })
      .forShare()
      .first("state", "discard_through");
    const recovery = await tx("webhook_recoveries")
      .where({ recovery_id: next.recovery_id, state: "running" })
      .forUpdate()
      .skipLocked()
      .first("recovery_id");
    if (recovery === undefined) return;
    if (next.removed) return cancelRecovery(tx, next.recovery_id, now);
    if (endpoint?.state === "active" && endpoint.discard_through === null) {
      await tx.raw(STEP, { now, recoveryId: next.recovery_id });
    }
  });
  return true;
}

async function cancelRecovery(tx: Transaction, recoveryId: string, now: Date): Promise<void> {
  await tx("webhook_recoveries")
    .where({ recovery_id: recoveryId })
    .update({ state: "cancelled", finished_at: now });
}
