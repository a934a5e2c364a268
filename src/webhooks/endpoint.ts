import { v5 as uuidv5 } from "uuid";
import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import { FRESH_HEALTH } from "./retries_and_suspension.ts";

/** Returns the id of a connection's endpoint. It stays the same when the callback URL changes. */
export function endpointIdOf(connectionId: string): string {
  return uuidv5("callback", connectionId);
}

/** Returns the id of an event's delivery to an endpoint. Crashes and repeated events do not change it. */
export function deliveryIdOf(endpointId: string, eventId: string): string {
  return uuidv5(eventId, endpointId);
}

/** The treatment of deliveries that were held while an endpoint was paused or suspended. */
export type Backlog = "replay" | "discard";

/**
 * Creates the missing endpoints of these connections, in the order of their ids. A conflict on either of the
 * two unique keys means that the endpoint exists.
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
 * Pauses an active or suspended endpoint. After the commit, the worker holds its waiting and new deliveries.
 * A running attempt still finishes.
 */
export async function pauseEndpoint(tx: Transaction, connectionId: string, now: Date): Promise<void> {
  await ensureEndpoints(tx, [connectionId], now);
  const endpointId = endpointIdOf(connectionId);
  await tx("webhook_endpoints")
    .where({ endpoint_id: endpointId })
    .update({
      state: "paused",
      paused_at: tx.raw(
        "case when state = 'paused' and not awaits_url then paused_at else ?::timestamptz end",
        [now],
      ) as never,
      suspended_at: null,
      suspend_reason: null,
      awaits_url: false,
    });
  await moveBacklog(tx, endpointId, now);
}

/**
 * Ends a pause or a suspension. Held deliveries are sent now or cancelled. After a pause the breaker keeps
 * its state, so that pausing never makes requests more frequent. Does nothing if the endpoint is active or
 * unknown.
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
    .update({ state: "active", paused_at: null, failing_since: null, awaits_url: false });
  if (resumed > 0) await release(tx, endpointId, backlog, now);
}

/**
 * Ends a suspension like {@link resumeEndpoint}, but leaves a paused endpoint paused. Returns true if there
 * was a suspension. Locks the endpoint before reading its state, so that a concurrent suspension is ended
 * too.
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

/**
 * SQL condition: the endpoint `e` is paused because there is no callback URL. A version that knows no such
 * endpoints may resume and pause it, but does not change `awaits_url`.
 */
export const AWAITS_URL = "e.state = 'paused' and e.awaits_url and e.paused_at is null";

/**
 * Pauses those active endpoints of connections that have no callback URL, until {@link endWait}. Returns the
 * ids of those endpoints. The caller has locked the endpoints.
 */
export async function awaitUrls(tx: Transaction, connectionIds: readonly string[]): Promise<string[]> {
  const { rows } = await tx.raw(
    `update webhook_endpoints e set state = 'paused', awaits_url = true from connections c
     where e.connection_id = any(:connectionIds::uuid[]) and e.state = 'active'
       and c.connection_id = e.connection_id and c.callback_url is null
     returning e.endpoint_id`,
    { connectionIds },
  );
  return rows.map((row: { endpoint_id: string }) => row.endpoint_id);
}

/** Sends what waited for a callback URL, if the connection now has one. An owner's pause remains. */
export async function endWait(tx: Transaction, endpointId: string, now: Date): Promise<void> {
  await tx("webhook_endpoints").where({ endpoint_id: endpointId }).forUpdate().first("endpoint_id");
  const { rowCount } = await tx.raw(
    `update webhook_endpoints e set state = 'active', awaits_url = false, failing_since = null from connections c
     where e.endpoint_id = :endpointId and ${AWAITS_URL}
       and c.connection_id = e.connection_id and c.callback_url is not null`,
    { endpointId },
  );
  if (rowCount > 0) await moveBacklog(tx, endpointId, now);
}

/*
 * The sequence number of the last held or pending delivery. Queries each state separately, because each has
 * its own index. A single query would read the locked endpoint's whole history.
 */
export const LAST_WAITING = `greatest(
  (select max(aggregate_seq) from webhook_deliveries where endpoint_id = :endpointId and state = 'held'),
  (select max(aggregate_seq) from webhook_deliveries where endpoint_id = :endpointId and state = 'pending'))`;

/*
 * Sequence numbers do not tell earlier from later deliveries, because connections have lanes. So discarding
 * also has a time, and the consumer creates no later delivery before it.
 */
const AFTER_ALL = `greatest(:now::timestamptz,
  (select max(created_at) from webhook_deliveries where endpoint_id = :endpointId)) + interval '1 ms'`;

/** Sends or discards the held deliveries. Discarding also cancels the open recovery. */
async function release(tx: Transaction, endpointId: string, backlog: Backlog, now: Date): Promise<void> {
  if (backlog === "discard") {
    await tx("webhook_endpoints")
      .where({ endpoint_id: endpointId })
      .update({
        discard_through: tx.raw(LAST_WAITING, { endpointId }) as never,
        discard_before: tx.raw(AFTER_ALL, { endpointId, now }) as never,
      });
    await tx("webhook_recoveries")
      .where({ endpoint_id: endpointId, state: "running" })
      .update({ state: "cancelled", finished_at: now });
  }
  await moveBacklog(tx, endpointId, now);
}

/** The maximum number of deliveries that are moved while an endpoint is locked. */
export const BACKLOG_BATCH = 1000;
const ENDPOINTS = 100;

/*
 * Endpoints with deliveries that do not match the endpoint's state: held deliveries at an active endpoint,
 * pending deliveries at an inactive one, and deliveries to discard. Needs one index probe for each such
 * endpoint.
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

/** Waiting endpoints whose callback URL was set by a version that knows no such endpoints. */
const AWAITED = `
select e.endpoint_id from webhook_endpoints e join connections c on c.connection_id = e.connection_id
where e.state <> 'active' and ${AWAITS_URL} and c.callback_url is not null limit ${ENDPOINTS}`;

/** Changing rows by id, after selecting and locking them, makes the plan independent of statistics. */
const moving = (set: string, state: string, picked: string) => `
update webhook_deliveries set ${set} where delivery_id = any (array(
  select delivery_id from webhook_deliveries where endpoint_id = :endpointId and state = ${state} ${picked}
  limit ${BACKLOG_BATCH} for update skip locked))`;

const HOLD = moving("state = 'held', next_attempt_at = null", "'pending'", "");
const RELEASE = moving("state = 'pending', next_attempt_at = :now", "'held'", "order by aggregate_seq");
const DROPPED =
  "state = 'cancelled', settled_at = :now, next_attempt_at = null, body = null, body_sealed = null";
/** The version before sets no time. */
const DISCARDED = `and aggregate_seq <= :through and created_at < coalesce(cast(:before as timestamptz), 'infinity')`;
const DROP_HELD = moving(DROPPED, "'held'", DISCARDED);
const DROP_WAITING = moving(DROPPED, "'pending'", DISCARDED);

/**
 * Moves up to 1,000 deliveries to the state that their endpoint requires: held, pending (oldest first) or
 * cancelled. The worker moves the rest later, because new events wait for the endpoint's lock. Until then,
 * new events are held behind the rest, which keeps their order.
 */
export async function moveBacklog(tx: Transaction, endpointId: string, now: Date): Promise<void> {
  const endpoint = await tx("webhook_endpoints")
    .where({ endpoint_id: endpointId })
    .forUpdate()
    .first("state", "discard_through", "discard_before");
  if (endpoint === undefined) return;
  if (endpoint.state !== "active") {
    await tx.raw(HOLD, { endpointId });
    return;
  }
  if (endpoint.discard_through !== null) {
    const { discard_through: through, discard_before: before } = endpoint;
    const bindings = { endpointId, through, before, now };
    for (const statement of [DROP_HELD, DROP_WAITING]) {
      const { rowCount } = await tx.raw(statement, bindings);
      if (rowCount === BACKLOG_BATCH) return;
    }
    await tx("webhook_endpoints")
      .where({ endpoint_id: endpointId })
      .update({ discard_through: null, discard_before: null });
  }
  await tx.raw(RELEASE, { endpointId, now });
}

/** Moves a part of every remaining backlog. Returns whether there was a backlog. */
export async function stepBacklogs({
  database,
  clock,
}: {
  database: Database;
  clock: Clock;
}): Promise<boolean> {
  const awaited = await step(database, AWAITED, (tx, endpointId) => endWait(tx, endpointId, clock.now()));
  const moved = await step(database, UNSETTLED, (tx, endpointId) => moveBacklog(tx, endpointId, clock.now()));
  return awaited || moved;
}

async function step(
  database: Database,
  query: string,
  work: (tx: Transaction, endpointId: string) => Promise<void>,
): Promise<boolean> {
  const { rows } = await database.raw(query);
  for (const { endpoint_id } of rows as { endpoint_id: string }[]) {
    await database.transaction((tx) => work(tx, endpoint_id));
  }
  return rows.length > 0;
}
