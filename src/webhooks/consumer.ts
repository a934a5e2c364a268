import type { Clock } from "../clock.ts";
import type { Transaction } from "../db/database.ts";
import type { WebhookDeliveryRow } from "../db/tables.ts";
import type { BusEvent, Consumer } from "../events/bus.ts";
import type { Reader } from "../events/published.ts";
import { deliveryBodyContext, eventSecretsContext } from "../events/secrets.ts";
import type { SecretBox } from "../secret_box.ts";
import { deliveryIdOf, ensureEndpoints } from "./endpoint.ts";

/** The consumer calls `created` after the commit, when there may be deliveries to send. */
export type WebhookConsumerDeps = { secretBox: SecretBox; clock: Clock; created?: () => void };

/** `holds` means that new deliveries for the endpoint are held. */
type Endpoint = { endpoint_id: string; holds: boolean };
type NewDelivery = Pick<WebhookDeliveryRow, (typeof COLUMNS)[number][0]>;

const COLUMNS = [
  ["delivery_id", "uuid"],
  ["endpoint_id", "uuid"],
  ["event_id", "uuid"],
  ["event_type", "text"],
  ["aggregate_seq", "bigint"],
  ["body", "text"],
  ["body_sealed", "bytea"],
  ["state", "text"],
  ["next_attempt_at", "timestamptz"],
  ["created_at", "timestamptz"],
] as const satisfies (readonly [keyof WebhookDeliveryRow, string])[];

/* Passes one array per column. One parameter per value would cost several times as much. */
const INSERT = `
insert into webhook_deliveries (${COLUMNS.map(([name]) => name).join(", ")})
select * from unnest(${COLUMNS.map(([name, type]) => `:${name}::${type}[]`).join(", ")})
on conflict (delivery_id) do nothing`;

/** Endpoints by connection id. */
type Endpoints = Map<string, Endpoint>;
/** Encrypted secrets by event id. */
type Secrets = Map<string, Buffer>;

/** The name of the webhook consumer, and the events that it reads. */
export const webhookReader = { name: "webhooks", aggregateType: "connection" } as const satisfies Reader;

/**
 * Creates the consumer that turns each event into one delivery for the endpoint of its connection. The bytes
 * of the body never change afterwards. A body with secrets is stored only in encrypted form.
 *
 * For a connection without a callback URL it creates no delivery, even if a URL is set later. It holds the
 * delivery if the endpoint receives nothing or already has held deliveries.
 */
export function createWebhookConsumer({ secretBox, clock, created }: WebhookConsumerDeps): Consumer {
  return {
    ...webhookReader,
    async handle(tx, events) {
      const now = clock.now();
      const secrets = await takeSecrets(tx, events);
      const endpoints = await openEndpoints(tx, events, now);
      const rows = events.flatMap((event) => {
        const endpoint = endpoints.get(event.aggregateId);
        if (endpoint === undefined) return [];
        return [deliveryRow(secretBox, event, endpoint, secrets.get(event.eventId), now)];
      });
      if (rows.length === 0) return;
      await insertDeliveries(tx, rows);
    },
    ...(created && { handled: created }),
  };
}

async function insertDeliveries(tx: Transaction, rows: readonly NewDelivery[]): Promise<void> {
  const columns = COLUMNS.map(([name]) => [name, rows.map((row) => row[name])]);
  await tx.raw(INSERT, Object.fromEntries(columns));
}

function deliveryRow(
  secretBox: SecretBox,
  event: BusEvent,
  { endpoint_id, holds }: Endpoint,
  secrets: Buffer | undefined,
  now: Date,
): NewDelivery {
  const deliveryId = deliveryIdOf(endpoint_id, event.eventId);
  const body = bodyOf(secretBox, event, secrets, deliveryId);
  return {
    delivery_id: deliveryId,
    endpoint_id,
    event_id: event.eventId,
    event_type: event.type,
    aggregate_seq: event.aggregateSeq,
    body: secrets === undefined ? body : null,
    body_sealed: secrets === undefined ? null : secretBox.box(body, deliveryBodyContext(deliveryId)),
    state: holds ? "held" : "pending",
    next_attempt_at: holds ? null : now,
    created_at: now,
  };
}

/**
 * Returns the body to sign: the event with its secrets, and the delivery's id, which the headers do not sign.
 */
function bodyOf(
  secretBox: SecretBox,
  { eventId, payload }: BusEvent,
  boxed: Buffer | undefined,
  deliveryId: string,
): string {
  const secrets = boxed && JSON.parse(secretBox.unbox(boxed, eventSecretsContext(eventId)));
  return JSON.stringify({ ...JSON.parse(payload), ...secrets, delivery_id: deliveryId });
}

async function takeSecrets(tx: Transaction, events: BusEvent[]): Promise<Secrets> {
  const eventIds = events.map((event) => event.eventId);
  const rows = await tx("event_secrets")
    .whereIn("event_id", eventIds)
    .delete()
    .returning(["event_id", "sealed"]);
  return new Map(rows.map((row) => [row.event_id, row.sealed]));
}

async function openEndpoints(tx: Transaction, events: BusEvent[], now: Date): Promise<Endpoints> {
  const connectionIds = [...new Set(events.map((event) => event.aggregateId))];
  const connections = await tx("connections")
    .whereIn("connection_id", connectionIds)
    .whereNotNull("callback_url")
    .pluck("connection_id");
  if (connections.length === 0) return new Map();
  await ensureEndpoints(tx, connections, now);
  const rows = await tx("webhook_endpoints")
    .whereIn("connection_id", connections)
    .orderBy("endpoint_id")
    .forShare()
    .select("connection_id", "endpoint_id", "state", "discard_through");
  const behind = await withBacklog(
    tx,
    rows.map((row) => row.endpoint_id),
  );
  return new Map(
    rows.map(({ connection_id, endpoint_id, state, discard_through }) => {
      const holds = state !== "active" || discard_through !== null || behind.has(endpoint_id);
      return [connection_id, { endpoint_id, holds }];
    }),
  );
}

/** New deliveries of these endpoints must wait behind the held ones. The caller has locked the endpoints. */
async function withBacklog(tx: Transaction, endpointIds: string[]): Promise<Set<string>> {
  const held = tx("webhook_deliveries as d")
    .whereRaw("d.endpoint_id = e.endpoint_id")
    .where({ "d.state": "held" })
    .select(tx.raw("1"));
  const found: string[] = await tx("webhook_endpoints as e")
    .whereIn("e.endpoint_id", endpointIds)
    .whereExists(held)
    .pluck("e.endpoint_id");
  return new Set(found);
}
