import type { Database } from "../db/database.ts";
import { CLAIM_SECONDS } from "./claim.ts";
import { MAX_ATTEMPTS } from "./schedule.ts";

/** A delivery that only ever ends with the death of its worker stops here. */
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
 * Frees deliveries whose worker died or was cut off: their claim has ended without a result. Whether the
 * receiver got the request is not known, so they are tried again immediately, under the same delivery id.
 * Those of an endpoint that gets nothing are held; its row is locked, so that none is held just after it was
 * resumed. `seconds` is how long a claim lasts. Gives how many there were.
 */
export async function reapLost(database: Database, now: Date, seconds = CLAIM_SECONDS): Promise<number> {
  const { rowCount } = await database.raw(REAP, { now, seconds });
  return rowCount ?? 0;
}
