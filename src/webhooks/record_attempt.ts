import { addSeconds } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import type { WebhookDeliveryRow } from "../db/tables.ts";
import type { AttemptResult } from "../events/event_metrics.ts";
import { appendAccountEvent } from "../events/outbox.ts";
import type { Claimed } from "./claim.ts";
import { awaitUrls, moveBacklog } from "./endpoint.ts";
import {
  DEFERRALS,
  FRESH_HEALTH,
  type Health,
  healthAfter,
  isDeferred,
  MAX_ATTEMPTS,
  resultOf,
  retryDelay,
  type Sent,
} from "./retries_and_suspension.ts";

/** One finished attempt. `random` is uniform in [0, 1) and varies the delay of the next attempt. */
export type Attempted = { delivery: Claimed; sent: Sent; startedAt: Date; endedAt: Date; random: number };

/** `stale` if the claim had expired and another worker now decides about the delivery. */
type RecordedAttempt =
  | { state: WebhookDeliveryRow["state"]; verdict: AttemptResult; suspended: boolean }
  | "stale";

const HEALTH_COLUMNS = Object.keys(FRESH_HEALTH) as (keyof Health)[];

type Change = Partial<WebhookDeliveryRow> & { state: WebhookDeliveryRow["state"] };

/**
 * Records an attempt, the delivery's new state, and the endpoint's health. Does so only while the delivery
 * has the claim's token, so calling it again is harmless.
 *
 * - If the receiver asks for a retry for the second time in one schedule, the delivery is rejected.
 * - A suspension holds all waiting deliveries of the endpoint and sends the owner an email.
 * - If the endpoint was paused meanwhile, a delivery that needs another attempt is held.
 * - A schedule ends with its tenth attempt, even if every answer was 410. Otherwise the number of attempts
 *   could exceed its column and block every claim.
 * - A 410 from a URL that was replaced meanwhile suspends nothing. Other failures of that URL count, so that
 *   changing URLs cannot keep the breaker closed.
 */
export async function recordAttempt(database: Database, attempted: Attempted): Promise<RecordedAttempt> {
  const { delivery, sent, startedAt, endedAt } = attempted;
  return database.transaction(async (tx) => {
    const endpoint = await tx("webhook_endpoints")
      .where({ endpoint_id: delivery.endpoint_id })
      .forUpdate()
      .first(HEALTH_COLUMNS);
    const claim = { delivery_id: delivery.delivery_id, lease_token: delivery.lease_token };
    const held = await tx("webhook_deliveries").where(claim).forUpdate().first("delivery_id");
    if (endpoint === undefined || held === undefined) return "stale";
    const isFormers = resultOf(sent) === "gone" && (await isReplaced(tx, delivery));
    const health = isFormers ? endpoint : healthAfter(endpoint, resultOf(sent), startedAt, endedAt);
    const verdict = isDeferred(sent) && (await wasDeferred(tx, delivery)) ? "rejected" : resultOf(sent);
    const suspended = health.state === "suspended" && endpoint.state === "active";
    const change = changeOf(attempted, verdict, health.state);
    await tx("webhook_attempts").insert(attemptRow(attempted, verdict));
    await tx("webhook_deliveries")
      .where(claim)
      .update({ next_attempt_at: null, lease_token: null, lease_until: null, ...change });
    await tx("webhook_endpoints").where({ endpoint_id: delivery.endpoint_id }).update(health);
    if (suspended) {
      await moveBacklog(tx, delivery.endpoint_id, endedAt);
      await noticeSuspension(tx, delivery.endpoint_id, endedAt);
    }
    return { state: change.state, verdict, suspended };
  });
}

/**
 * Releases a claimed delivery without an attempt, because the connection no longer has a URL. An event of a
 * customer waits for the next URL. Any other delivery ends.
 */
export async function releaseDelivery(database: Database, delivery: Claimed, now: Date): Promise<void> {
  const { delivery_id, lease_token, endpoint_id } = delivery;
  const claim = { delivery_id, lease_token };
  const released = { lease_token: null, lease_until: null };
  if (delivery.customer_connection_id === null) {
    const erased = { body: null, body_sealed: null };
    await database("webhook_deliveries")
      .where(claim)
      .update({ state: "cancelled", settled_at: now, ...released, ...erased });
    return;
  }
  await database.transaction(async (tx) => {
    await tx("webhook_endpoints").where({ endpoint_id }).forUpdate().first("endpoint_id");
    await awaitUrls(tx, [delivery.connection_id]);
    await tx("webhook_deliveries")
      .where(claim)
      .update({ state: "held", attempts: delivery.attempts - 1, ...released });
  });
}

function changeOf(
  { delivery, sent, endedAt, random }: Attempted,
  verdict: AttemptResult,
  endpointState: Health["state"],
): Change {
  const tries = delivery.attempts - delivery.schedule_start;
  if (verdict === "delivered") return { state: "delivered", settled_at: endedAt, body_sealed: null };
  if (verdict === "gone" && tries >= MAX_ATTEMPTS) return { state: "failed", settled_at: endedAt };
  if (verdict === "gone" && endpointState === "active") return { state: "pending", next_attempt_at: endedAt };
  if (verdict === "gone") return { state: "held" };
  if (verdict !== "failed") return { state: verdict, settled_at: endedAt };
  const delay = retryDelay(tries, sent, endedAt, random);
  if (delay === undefined) return { state: "failed", settled_at: endedAt };
  if (endpointState !== "active") return { state: "held" };
  return { state: "pending", next_attempt_at: new Date(endedAt.getTime() + delay) };
}

function attemptRow({ delivery, sent, startedAt, endedAt }: Attempted, verdict: AttemptResult) {
  const carriedSecrets = delivery.body === null;
  const answered = "status" in sent;
  return {
    delivery_id: delivery.delivery_id,
    attempt: delivery.attempts,
    started_at: startedAt,
    ended_at: endedAt,
    outcome: verdict,
    status: answered ? sent.status : null,
    detail: answered ? null : sent.detail,
    response_excerpt: answered && !carriedSecrets ? sent.excerpt : null,
  };
}

async function isReplaced(tx: Transaction, { connection_id, callback_url }: Claimed): Promise<boolean> {
  const connection = await tx("connections").where({ connection_id }).first("callback_url");
  return connection?.callback_url !== callback_url;
}

async function wasDeferred(tx: Transaction, { delivery_id, schedule_start }: Claimed): Promise<boolean> {
  const earlier = await tx("webhook_attempts")
    .where({ delivery_id })
    .where("attempt", ">", schedule_start)
    .whereIn("status", DEFERRALS)
    .first("attempt");
  return earlier !== undefined;
}

const DAY = 24 * 60 * 60;
/** The maximum number of suspension emails for an account within 24 hours. */
export const NOTICES_PER_DAY = 5;

/**
 * Appends the event that sends the account's owner an email, in the transaction that suspends an endpoint.
 * Appends at most one event a day for an endpoint, five for an account, and none for a removed connection.
 * Nobody can therefore flood the mailbox. Locks the account's balance, so that the limits also cover
 * concurrent suspensions.
 */
export async function noticeSuspension(tx: Transaction, endpointId: string, now: Date): Promise<void> {
  const suspended = await tx("webhook_endpoints as e")
    .join("connections as c", "c.connection_id", "e.connection_id")
    .where({ "e.endpoint_id": endpointId })
    .whereNull("c.removed_at")
    .first("c.account_id", "c.connection_id", "e.suspend_reason");
  if (suspended === undefined) return;
  const { account_id, connection_id, suspend_reason: reason } = suspended;
  await tx("balances").where({ account_id }).forNoKeyUpdate().first("account_id");
  const noticed: string[] = await tx("connections as c")
    .join("webhook_endpoints as e", "e.connection_id", "c.connection_id")
    .where({ "c.account_id": account_id })
    .where("e.noticed_at", ">", addSeconds(now, -DAY))
    .limit(NOTICES_PER_DAY)
    .pluck("e.endpoint_id");
  if (noticed.length >= NOTICES_PER_DAY || noticed.includes(endpointId)) return;
  await tx("webhook_endpoints").where({ endpoint_id: endpointId }).update({ noticed_at: now });
  const fields = { account_id, connection_id, reason, occurred_at: now.toISOString() };
  await appendAccountEvent(tx, { type: "webhook.suspended", ...fields }, now);
}
