import type { Database, Transaction } from "../../../src/db/database.ts";
import type { Bus, BusEvent } from "../../../src/events/bus.ts";
import { appendEvent, type LifecycleEvent } from "../../../src/events/outbox.ts";
import { secretBox, type TestConnection } from "./connection.ts";

/** Returns an event of a connection. Tests identify the event by its request id. */
export function deniedEvent(connection: TestConnection, requestId: string): LifecycleEvent {
  const { connectionId, accountId } = connection;
  const fields = {
    request_id: requestId,
    connection_id: connectionId,
    org_id: accountId,
    agent_id: "agent-1",
  };
  return { type: "delegation.denied", connectionId, fields };
}

/** Returns a `connection.created` event, with its secrets. */
export function createdEvent(connection: TestConnection, apiKey: string): LifecycleEvent {
  const { connectionId, accountId, platformId, secret } = connection;
  return {
    type: "connection.created",
    connectionId,
    fields: {
      connection_id: connectionId,
      platform_id: platformId,
      org_id: accountId,
      org_name: "Ada Byron",
      allowed_scopes: ["data:read"],
      callback_url: "https://hooks.example.test/",
    },
    secrets: { api_key: apiKey, webhook_signing_secret: secret },
  };
}

/** Appends an event in the given transaction, or in a new one. */
export async function append(
  database: Database | Transaction,
  event: LifecycleEvent,
  now = new Date(),
): Promise<void> {
  await database.transaction((tx) => appendEvent(tx, secretBox, event, now));
}

/** Creates a bus that records published events, and fails while `failing` is set. */
export function recordingBus(): Bus & { published: BusEvent[]; batches: number; failing: boolean } {
  const bus = {
    published: [] as BusEvent[],
    batches: 0,
    failing: false,
    async publish(events: BusEvent[]) {
      if (bus.failing) throw new Error("the bus is away");
      bus.batches += 1;
      bus.published.push(...events);
    },
    subscribe: async () => {},
    health: async () => ({ ok: true }),
    close: async () => {},
  };
  return bus;
}

/** Returns the request id of an event from `deniedEvent`. */
export function requestIdOf(event: BusEvent): string {
  return JSON.parse(event.payload).request_id;
}
