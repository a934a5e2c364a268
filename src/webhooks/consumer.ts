import type { Clock } from "../clock.ts";
import { platformOf, type Transaction } from "../db/database.ts";
import type { WebhookDeliveryRow } from "../db/tables.ts";
import type { BusEvent, Consumer } from "../events/bus.ts";
import { CUSTOMER_CONNECTION } from "../events/outbox.ts";
import type { Reader } from "../events/published.ts";
import { deliveryBodyContext, eventSecretsContext } from "../events/secrets.ts";
import type { SecretBox } from "../secret_box.ts";
import { awaitUrls, deliveryIdOf, ensureEndpoints } from "./endpoint.ts";
import { placeInLane } from "./lanes.ts";

/** The consumer calls `created` after the commit, when there may be deliveries to send. */
export type WebhookConsumerDeps = { secretBox: SecretBox; clock: Clock; created?: () => void };

/** `holds` means that new deliveries for the endpoint are held. Nothing is created before `since`. */
type Endpoint = { endpoint_id: string; holds: boolean; since: Date | null };
/** The connection of an event, and the own connection of its platform, whose callback gets the event. */
type Target = { connection_id: string; own_id: string; is_customer: boolean; has_url: boolean };
type NewDelivery = Pick<WebhookDeliveryRow, (typeof COLUMNS)[number][0]>;

const COLUMNS = [
  ["delivery_id", "uuid"],
  ["endpoint_id", "uuid"],
  ["event_id", "uuid"],
  ["event_type", "text"],
  ["aggregate_seq", "bigint"],
  ["customer_connection_id", "uuid"],
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

/** Endpoints by the id of the connection whose events they get. */
type Endpoints = Map<string, Endpoint & Pick<Target, "is_customer">>;
/** Encrypted secrets by event id. */
type Secrets = Map<string, Buffer>;

/** The name of the webhook consumer, and the events that it reads. */
export const webhookReader = {
  name: "webhooks",
  aggregateTypes: ["connection", CUSTOMER_CONNECTION],
} as const satisfies Reader;

/**
 * Creates the consumer that turns each event into one delivery for the endpoint of its platform. The bytes of
 * the body never change afterwards. A body with secrets is stored only in encrypted form.
 *
 * Without a callback URL, it creates no delivery for an own connection, even if a URL is set later. It holds
 * the deliveries for customers' connections until then. It also holds a delivery if the endpoint receives
 * nothing or already has held deliveries.
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
  { endpoint_id, holds, since, is_customer }: Endpoint & Pick<Target, "is_customer">,
  secrets: Buffer | undefined,
  now: Date,
): NewDelivery {
  const deliveryId = deliveryIdOf(endpoint_id, event.eventId);
  const body = bodyOf(secretBox, event, secrets, deliveryId);
  const { aggregateId, aggregateSeq } = event;
  return {
    delivery_id: deliveryId,
    endpoint_id,
    event_id: event.eventId,
    event_type: event.type,
    aggregate_seq: is_customer ? placeInLane(aggregateId, aggregateSeq) : aggregateSeq,
    customer_connection_id: is_customer ? aggregateId : null,
    body: secrets === undefined ? body : null,
    body_sealed: secrets === undefined ? null : secretBox.box(body, deliveryBodyContext(deliveryId)),
    state: holds ? "held" : "pending",
    next_attempt_at: holds ? null : now,
    created_at: since !== null && since > now ? since : now,
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
  const targets = await findTargets(tx, events);
  const ownIds = [...new Set(targets.map(({ own_id }) => own_id))];
  if (ownIds.length === 0) return new Map();
  await ensureEndpoints(tx, ownIds, now);
  const withoutUrl = new Set(targets.filter(({ has_url }) => !has_url).map(({ own_id }) => own_id));
  const endpoints = await lockEndpoints(tx, ownIds, [...withoutUrl]);
  return new Map(
    targets.flatMap(({ connection_id, own_id, is_customer }) => {
      const endpoint = endpoints.get(own_id);
      return endpoint === undefined ? [] : [[connection_id, { ...endpoint, is_customer }]];
    }),
  );
}

async function findTargets(tx: Transaction, events: BusEvent[]): Promise<Target[]> {
  const connectionIds = [...new Set(events.map((event) => event.aggregateId))];
  return tx("connections as c")
    .join("connections as own", "own.platform_id", tx.raw(platformOf("c")))
    .whereIn("c.connection_id", connectionIds)
    .where((of) => of.whereNotNull("own.callback_url").orWhereNotNull("c.product_id"))
    .select<Target[]>(
      "c.connection_id",
      "own.connection_id as own_id",
      tx.raw("c.product_id is not null as is_customer"),
      tx.raw("own.callback_url is not null as has_url"),
    );
}

/**
 * Locks endpoints and returns them by the ids of their connections. Those that have no callback URL wait for
 * it from now on.
 */
async function lockEndpoints(
  tx: Transaction,
  ownIds: readonly string[],
  withoutUrl: readonly string[],
): Promise<Map<string, Endpoint>> {
  const found = tx("webhook_endpoints").whereIn("connection_id", ownIds).orderBy("endpoint_id");
  const locked = withoutUrl.length === 0 ? found.forShare() : found.forNoKeyUpdate();
  const rows = await locked.select(
    "connection_id",
    "endpoint_id",
    "state",
    "discard_through",
    "discard_before",
  );
  const waiting = new Set(withoutUrl.length === 0 ? [] : await awaitUrls(tx, withoutUrl));
  const behind = await withBacklog(
    tx,
    rows.map((row) => row.endpoint_id),
  );
  return new Map(
    rows.map(({ connection_id, endpoint_id, state, discard_through, discard_before }) => {
      const isSilent = state !== "active" || waiting.has(endpoint_id);
      const holds = isSilent || discard_through !== null || behind.has(endpoint_id);
      return [connection_id, { endpoint_id, holds, since: discard_before }];
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
