import { createHash } from "node:crypto";
import { uuidv7 } from "uuidv7";
import type { Transaction } from "../db/connection.ts";
import type { Seal } from "../seal.ts";
import { eventKinds, type LifecycleEvent } from "./kinds.ts";
import { eventSecretsContext } from "./secrets.ts";

export type { LifecycleEvent } from "./kinds.ts";

/** How many shards the outbox has. One shard is relayed by one worker at a time. */
export const OUTBOX_SHARDS = 8;

const SCHEMA_VERSION = 1;

/**
 * Appends an event to the outbox in the transaction of the change that it tells of: both happen or neither.
 *
 * Takes the connection's next sequence number under the connection's row lock, so the events of one connection
 * are numbered and relayed in the order of their commits. Secrets are sealed, never in the payload. Throws when
 * the fields are not those of the event's kind or the connection does not exist.
 */
export async function appendEvent(
  tx: Transaction,
  seal: Seal,
  event: LifecycleEvent,
  now: Date,
): Promise<void> {
  const fields = eventKinds[event.type].fields.parse(event.fields);
  if (fields.connection_id !== event.connectionId) {
    throw new Error(`The event ${event.type} names two connections`);
  }
  const eventId = uuidv7();
  await tx("outbox").insert({
    event_id: eventId,
    aggregatetype: "connection",
    aggregateid: event.connectionId,
    aggregate_seq: await takeSequence(tx, event.connectionId),
    type: event.type,
    schema_version: SCHEMA_VERSION,
    shard: shardOf(event.connectionId),
    payload: JSON.stringify({ event: event.type, ...fields }),
    headers: {},
    created_at: now,
  });
  if (event.secrets === undefined) return;
  const sealed = seal.seal(JSON.stringify(event.secrets), eventSecretsContext(eventId));
  await tx("event_secrets").insert({ event_id: eventId, sealed, created_at: now });
}

/** The shard of a connection's events: always the same one, so that their order is kept. */
export function shardOf(connectionId: string): number {
  return createHash("sha256").update(connectionId).digest().readUInt8(0) % OUTBOX_SHARDS;
}

async function takeSequence(tx: Transaction, connectionId: string): Promise<number> {
  const [row] = await tx("connections")
    .where({ connection_id: connectionId })
    .increment("next_event_seq", 1)
    .returning("next_event_seq");
  if (row === undefined) throw new Error(`There is no connection ${connectionId}`);
  return row.next_event_seq - 1;
}
