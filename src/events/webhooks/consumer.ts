import type { Clock } from "../../clock.ts";
import type { Transaction } from "../../db/connection.ts";
import type { WebhookDeliveryRow } from "../../db/tables.ts";
import type { Seal } from "../../seal.ts";
import type { BusEvent, Consumer } from "../bus.ts";
import { deliveryBodyContext, eventSecretsContext } from "../secrets.ts";
import { deliveryIdOf, endpointIdOf } from "./endpoint.ts";
import { FRESH_HEALTH } from "./health.ts";

/** `created` is told after the commit that there may be deliveries to send. */
export type WebhookConsumerDeps = { seal: Seal; clock: Clock; created?: () => void };

type Body = Pick<WebhookDeliveryRow, "body" | "body_sealed">;

/**
 * The consumer that makes one delivery of each event for the endpoint of its connection, with the body's bytes fixed
 * here. A connection without a callback URL gets none: the event counts as consumed and is not sent later. Secrets join
 * the body in sealed form only, and their row goes away with the event.
 */
export function createWebhookConsumer({ seal, clock, created }: WebhookConsumerDeps): Consumer {
  async function bodyOf(tx: Transaction, event: BusEvent, deliveryId: string): Promise<Body> {
    const kept = await tx("event_secrets").where({ event_id: event.eventId }).first();
    if (kept === undefined) return { body: event.payload, body_sealed: null };
    const secrets = JSON.parse(seal.open(kept.sealed, eventSecretsContext(event.eventId)));
    const body = JSON.stringify({ ...JSON.parse(event.payload), ...secrets });
    return { body: null, body_sealed: seal.seal(body, deliveryBodyContext(deliveryId)) };
  }

  return {
    name: "webhooks",
    async handle(tx, events) {
      const now = clock.now();
      const states = await openEndpoints(tx, events, now);
      for (const event of events) {
        const endpointId = endpointIdOf(event.aggregateId);
        const state = states.get(endpointId);
        if (state !== undefined) {
          const deliveryId = deliveryIdOf(endpointId, event.eventId);
          const active = state === "active";
          await tx("webhook_deliveries").insert({
            delivery_id: deliveryId,
            endpoint_id: endpointId,
            event_id: event.eventId,
            event_type: event.type,
            aggregate_seq: event.aggregateSeq,
            ...(await bodyOf(tx, event, deliveryId)),
            state: active ? "pending" : "held",
            next_attempt_at: active ? now : null,
            created_at: now,
          });
        }
      }
      await tx("event_secrets").whereIn("event_id", idsOf(events)).delete();
    },
    ...(created && { handled: created }),
  };
}

const idsOf = (events: BusEvent[]) => events.map((event) => event.eventId);

/** The endpoints of the events' connections that have a callback URL, made if need be, and their states. */
async function openEndpoints(
  tx: Transaction,
  events: BusEvent[],
  now: Date,
): Promise<Map<string, "active" | "suspended">> {
  const connectionIds = [...new Set(events.map((event) => event.aggregateId))];
  const connections = await tx("connections")
    .whereIn("connection_id", connectionIds)
    .whereNotNull("callback_url")
    .select("connection_id");
  const endpoints = connections
    .map((row) => ({ endpoint_id: endpointIdOf(row.connection_id), connection_id: row.connection_id }))
    .sort((one, other) => (one.endpoint_id < other.endpoint_id ? -1 : 1));
  if (endpoints.length === 0) return new Map();
  await tx("webhook_endpoints")
    .insert(endpoints.map((endpoint) => ({ ...endpoint, ...FRESH_HEALTH, created_at: now })))
    .onConflict("endpoint_id")
    .ignore();
  const rows = await tx("webhook_endpoints")
    .whereIn(
      "endpoint_id",
      endpoints.map((endpoint) => endpoint.endpoint_id),
    )
    .orderBy("endpoint_id")
    .forShare()
    .select("endpoint_id", "state");
  return new Map(rows.map((row) => [row.endpoint_id, row.state]));
}
