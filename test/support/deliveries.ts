import { randomUUID } from "node:crypto";
import { addSeconds } from "../../src/clock.ts";
import type { Database } from "../../src/db/database.ts";
import type { WebhookDeliveryRow, WebhookRecoveryRow } from "../../src/db/tables.ts";
import { endpointIdOf, ensureEndpoints } from "../../src/webhooks/endpoint.ts";

const SETTLED = ["delivered", "rejected", "blocked", "failed", "cancelled"];

export async function insertDelivery(
  database: Database,
  connectionId: string,
  change: Partial<WebhookDeliveryRow> & { at: Date },
): Promise<string> {
  const { at, ...columns } = change;
  const state = columns.state ?? "failed";
  const delivery_id = randomUUID();
  const endpoint_id = endpointIdOf(connectionId);
  await ensureEndpoints(database, [connectionId], at);
  const body = JSON.stringify({
    event: "delegation.denied",
    connection_id: connectionId,
    request_id: delivery_id,
  });
  await database("webhook_deliveries").insert({
    delivery_id,
    endpoint_id,
    event_id: randomUUID(),
    event_type: "delegation.denied",
    aggregate_seq: 1,
    body: state === "cancelled" ? null : body,
    state,
    attempts: 1,
    next_attempt_at: state === "pending" ? at : null,
    lease_token: state === "sending" ? randomUUID() : null,
    lease_until: state === "sending" ? addSeconds(at, 60) : null,
    created_at: at,
    settled_at: SETTLED.includes(state) ? at : null,
    ...columns,
  });
  return delivery_id;
}

export async function insertRecovery(
  database: Database,
  connectionId: string,
  change: Partial<WebhookRecoveryRow> & Pick<WebhookRecoveryRow, "since" | "until">,
): Promise<string> {
  const recovery_id = randomUUID();
  await database("webhook_recoveries").insert({
    recovery_id,
    endpoint_id: endpointIdOf(connectionId),
    states: ["failed"],
    seen_at: change.since,
    stepped_at: change.until,
    created_at: change.until,
    ...change,
  });
  return recovery_id;
}
