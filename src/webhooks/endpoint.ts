import { v5 as uuidv5 } from "uuid";
import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import { FRESH_HEALTH } from "./retries_and_suspension.ts";

/** The id of a connection's endpoint. It stays the same when the callback URL changes. */
export function endpointIdOf(connectionId: string): string {
  return uuidv5("callback", connectionId);
}

/**
 * The id of the delivery of an event to an endpoint: the same through retries, crashes and repeated events.
 */
export function deliveryIdOf(endpointId: string, eventId: string): string {
  return uuidv5(eventId, endpointId);
}

/** What becomes of the deliveries that were held while an endpoint was paused or suspended. */
export type Backlog = "replay" | "discard";

/**
 * Makes the endpoints of those connections that have none yet, in the order of their ids. The table has two
 * unique keys, and of two that make the same one at once either can be met first: so a conflict of any of
 * them means that it is there.
 */
export async function ensureEndpoints(
  db: Transaction | Database,
  connectionIds: readonly string[],
  now: Date,
): Promise<void> {
  const fresh = connectionIds
    .map((connectionId) => ({ endpoint_id: endpointIdOf(connectionId), connection_id: connectionId }))
    .sort((one, other) => (one.endpoint_id < other.endpoint_id ? -1 : 1))
    .map((ids) => ({ ...ids, ...FRESH_HEALTH, created_at: now }));
  await db("webhook_endpoints").insert(fresh).onConflict().ignore();
}

/**
 * Pauses an endpoint, whether it is active or suspended: from the commit on nothing is claimed for it, what
 * waits is held, and so is what comes. An attempt that is under way ends by itself.
 */
export async function pauseEndpoint(tx: Transaction, connectionId: string, now: Date): Promise<void> {
  await ensureEndpoints(tx, [connectionId], now);
  const endpointId = endpointIdOf(connectionId);
  await tx("webhook_endpoints")
    .where({ endpoint_id: endpointId })
    .update({
      state: "paused",
      paused_at: tx.raw("case when state = 'paused' then paused_at else ?::timestamptz end", [now]) as never,
      suspended_at: null,
      suspend_reason: null,
    });
  await moveBacklog(tx, endpointId, now);
}

/**
 * Ends a pause or a suspension: the endpoint gets requests again, and what was held is sent now or cancelled.
 * A pause leaves its breaker as it was, so that pausing never makes requests more frequent. Does nothing to
 * an endpoint that is active or unknown.
 */
export async function resumeEndpoint(
  tx: Transaction,
  connectionId: string,
  backlog: Backlog,
  now: Date,
): Promise<void> {
  if (await endSuspension(tx, connectionId, backlog, now)) return;
  const endpointId = endpointIdOf(connectionId);
  const resumed = await tx("webhook_endpoints")
    .where({ endpoint_id: endpointId, state: "paused" })
    .update({ state: "active", paused_at: null, failing_since: null });
  if (resumed > 0) await release(tx, endpointId, backlog, now);
}

/**
 * Ends a suspension likewise, and leaves a paused endpoint paused. True when there was one. Called when the
 * callback URL is set. The lock is taken before the state is looked at: one that commits meanwhile is ended.
 */
export async function endSuspension(
  tx: Transaction,
  connectionId: string,
  backlog: Backlog,
  now: Date,
): Promise<boolean> {
  const endpointId = endpointIdOf(connectionId);
  await tx("webhook_endpoints").where({ endpoint_id: endpointId }).forUpdate().first("endpoint_id");
  const resumed = await tx("webhook_endpoints")
    .where({ endpoint_id: endpointId, state: "suspended" })
    .update(FRESH_HEALTH);
  if (resumed > 0) await release(tx, endpointId, backlog, now);
  return resumed > 0;
}

/*
 * The number of the last delivery that is held or waits. In two halves, since each state has an index of its
 * own: while the endpoint is locked its whole history is not read.
 */
export const LAST_WAITING = `greatest(
  (select max(aggregate_seq) from webhook_deliveries where endpoint_id = :endpointId and state = 'held'),
  (select max(aggregate_seq) from webhook_deliveries where endpoint_id = :endpointId and state = 'pending'))`;

/** What is discarded takes the recovery that is open with it. */
async function release(tx: Transaction, endpointId: string, backlog: Backlog, now: Date): Promise<void> {
  if (backlog === "discard") {
    await tx("webhook_endpoints")
      .where({ endpoint_id: endpointId })
      .update({ discard_through: tx.raw(LAST_WAITING, { endpointId }) as never });
    await tx("webhook_recoveries")
      .where({ endpoint_id: endpointId, state: "running" })
      .update({ state: "cancelled", finished_at: now });
  }
  await moveBacklog(tx, endpointId, now);
}

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
