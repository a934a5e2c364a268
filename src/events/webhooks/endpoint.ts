import { v5 as uuidv5 } from "uuid";
import type { Transaction } from "../../db/database.ts";
import { FRESH_HEALTH } from "./health.ts";

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

/** What becomes of the deliveries that were held while an endpoint was suspended. */
export type Backlog = "replay" | "discard";

/**
 * Ends a suspension: the endpoint gets requests again, and what was held is sent now or cancelled. Does
 * nothing to an endpoint that is active or unknown. Called when the callback URL is changed.
 */
export async function resumeEndpoint(
  tx: Transaction,
  connectionId: string,
  backlog: Backlog,
  now: Date,
): Promise<void> {
  const endpointId = endpointIdOf(connectionId);
  const resumed = await tx("webhook_endpoints")
    .where({ endpoint_id: endpointId, state: "suspended" })
    .update(FRESH_HEALTH);
  if (resumed === 0) return;
  await tx("webhook_deliveries")
    .where({ endpoint_id: endpointId, state: "held" })
    .update(
      backlog === "replay"
        ? { state: "pending", next_attempt_at: now }
        : { state: "cancelled", settled_at: now, body: null, body_sealed: null },
    );
}
