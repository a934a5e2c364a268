import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";

/** Deliveries that are moved while an endpoint is locked. */
export const BACKLOG_BATCH = 1000;
const ENDPOINTS = 100;

/*
 * Endpoints with deliveries that are not where their state has them: held ones of an active endpoint, pending
 * ones of another, those to be dropped. One index probe for each endpoint that has any.
 */
const UNSETTLED = `
with recursive held (endpoint_id) as (
  (select endpoint_id from webhook_deliveries where state = 'held' order by endpoint_id limit 1)
  union all
  select (select d.endpoint_id from webhook_deliveries d
          where d.state = 'held' and d.endpoint_id > h.endpoint_id order by d.endpoint_id limit 1)
  from held h where h.endpoint_id is not null
), waiting (endpoint_id) as (
  (select endpoint_id from webhook_deliveries where state = 'pending' order by endpoint_id limit 1)
  union all
  select (select d.endpoint_id from webhook_deliveries d
          where d.state = 'pending' and d.endpoint_id > w.endpoint_id order by d.endpoint_id limit 1)
  from waiting w where w.endpoint_id is not null
), unsettled as (
  select endpoint_id from webhook_endpoints where discard_through is not null and state = 'active'
  union
  select e.endpoint_id from held h join webhook_endpoints e on e.endpoint_id = h.endpoint_id where e.state = 'active'
  union
  select e.endpoint_id from waiting w join webhook_endpoints e on e.endpoint_id = w.endpoint_id where e.state <> 'active'
)
select endpoint_id from unsettled order by random() limit ${ENDPOINTS}`;

/** Rows are picked and locked first, then changed by their ids alone: the plan depends on no statistics. */
const moving = (set: string, state: string, picked: string) => `
update webhook_deliveries set ${set} where delivery_id = any (array(
  select delivery_id from webhook_deliveries where endpoint_id = :endpointId and state = ${state} ${picked}
  limit ${BACKLOG_BATCH} for update skip locked))`;

const HOLD = moving("state = 'held', next_attempt_at = null", "'pending'", "");
const RELEASE = moving("state = 'pending', next_attempt_at = :now", "'held'", "order by aggregate_seq");
const DROPPED =
  "state = 'cancelled', settled_at = :now, next_attempt_at = null, body = null, body_sealed = null";
const DROP_HELD = moving(DROPPED, "'held'", "and aggregate_seq <= :through");
const DROP_WAITING = moving(DROPPED, "'pending'", "and aggregate_seq <= :through");

/**
 * Brings up to 1,000 deliveries of an endpoint to where its state has them: held while it gets nothing; when
 * it is active, dropped where they are to be discarded, then pending, the oldest first. What is left is moved
 * by the worker, so that no endpoint is locked for long: others' events wait for that lock. Until all are
 * moved new events are held behind them, which keeps their order.
 */
export async function moveBacklog(tx: Transaction, endpointId: string, now: Date): Promise<void> {
  const endpoint = await tx("webhook_endpoints")
    .where({ endpoint_id: endpointId })
    .forUpdate()
    .first("state", "discard_through");
  if (endpoint === undefined) return;
  if (endpoint.state !== "active") {
    await tx.raw(HOLD, { endpointId });
    return;
  }
  if (endpoint.discard_through !== null) {
    const bindings = { endpointId, through: endpoint.discard_through, now };
    for (const statement of [DROP_HELD, DROP_WAITING]) {
      const { rowCount } = await tx.raw(statement, bindings);
      if (rowCount === BACKLOG_BATCH) return;
    }
    await tx("webhook_endpoints").where({ endpoint_id: endpointId }).update({ discard_through: null });
  }
  await tx.raw(RELEASE, { endpointId, now });
}

/** Moves a part of every backlog that is left, and says whether there was one. */
export async function stepBacklogs({
  database,
  clock,
}: {
  database: Database;
  clock: Clock;
}): Promise<boolean> {
  const { rows } = await database.raw(UNSETTLED);
  for (const { endpoint_id } of rows as { endpoint_id: string }[]) {
    await database.transaction((tx) => moveBacklog(tx, endpoint_id, clock.now()));
  }
  return rows.length > 0;
}
