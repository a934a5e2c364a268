import type { Transaction } from "../db/database.ts";
import type { WebhookDeliveryRow } from "../db/tables.ts";

/** A delivery that has had so many attempts, over all of its schedules, is not sent again. */
export const RESEND_ATTEMPTS = 50;

/** Why a delivery is not sent again; each is an error code. */
export type ResendRefusal =
  | "no_callback"
  | "callback_inactive"
  | "delivery_under_way"
  | "delivery_body_erased"
  | "delivery_limit";

/** What decides whether a delivery is sent again. */
export type Resendable = Pick<WebhookDeliveryRow, "state" | "attempts"> & {
  /** Whether its body is still kept. */
  has_body: boolean;
  callback_url: string | null;
  /** Whether its endpoint gets requests: not paused, not suspended, nothing being discarded. */
  is_active: boolean;
};

/**
 * Why a delivery is not sent again, or nothing. The first reason counts: there is no URL; the callback is
 * paused or suspended (what is held is sent when it is resumed); it waits or is being sent; its body is
 * erased (delivered secrets, cancelled deliveries); it had its attempts.
 */
export function resendRefusal(delivery: Resendable): ResendRefusal | undefined {
  const { state, attempts, has_body, callback_url, is_active } = delivery;
  if (callback_url === null) return "no_callback";
  if (!is_active) return "callback_inactive";
  if (state === "pending" || state === "sending" || state === "held") return "delivery_under_way";
  if (!has_body) return "delivery_body_erased";
  return attempts >= RESEND_ATTEMPTS ? "delivery_limit" : undefined;
}

/**
 * Puts a finished delivery of an endpoint back to be sent now, with the same id and bytes and one fresh
 * schedule. Its attempts go on counting, so it is no first delivery: it runs beside those, neither waiting
 * for them nor keeping them waiting. Gives why it is not sent again; `not_found` when the endpoint has no
 * such delivery.
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
    .select<Pick<Resendable, "state" | "attempts" | "has_body">[]>(
      "state",
      "attempts",
      tx.raw("num_nonnulls(body, body_sealed) = 1 as has_body"),
    );
  if (delivery === undefined) return "not_found";
  const connection = await tx("connections")
    .where({ connection_id: endpoint.connection_id })
    .first("callback_url");
  const refusal = resendRefusal({
    ...delivery,
    callback_url: connection?.callback_url ?? null,
    is_active: endpoint.state === "active" && endpoint.discard_through === null,
  });
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
