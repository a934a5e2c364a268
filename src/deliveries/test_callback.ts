import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { appendEvent } from "../events/outbox.ts";
import { lockConnection } from "../platforms/connection_lock.ts";
import { findConnection } from "../platforms/platform_record.ts";
import type { SecretBox } from "../secret_box.ts";
import { deliveryIdOf, endpointIdOf } from "../webhooks/endpoint.ts";
import type { SendingRates } from "./rates.ts";
import { requireActiveCallback } from "./require_callback.ts";
import type { OwnConnection } from "./webhook_secret.ts";

/** What a test event works with. */
export type TestDeps = { db: Database; clock: Clock; secretBox: SecretBox; sendingRates: SendingRates };

/**
 * Appends a test event, which goes to the connection's callback URL like any other; gives its id and the
 * delivery's, which exists as soon as the worker has made it. Throws `not_found`, `no_callback`,
 * `callback_inactive`, `rate_limited`.
 */
export async function testCallback(
  { db, clock, secretBox, sendingRates }: TestDeps,
  { accountId, connectionId }: OwnConnection,
): Promise<{ event_id: string; delivery_id: string }> {
  const found = await findConnection(db, accountId, connectionId);
  requireActiveCallback(found);
  const { connection_id } = found;
  await sendingRates.takeTest(connection_id);
  const eventId = await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    requireActiveCallback(await findConnection(tx, accountId, connection_id));
    const now = clock.now();
    const fields = { connection_id, org_id: accountId, sent_at: now.toISOString() };
    return appendEvent(tx, secretBox, { type: "callback.test", connectionId: connection_id, fields }, now);
  });
  return { event_id: eventId, delivery_id: deliveryIdOf(endpointIdOf(connection_id), eventId) };
}
