import type { Database } from "../db/connection.ts";
import type { AddressPolicy } from "../events/webhooks/addresses.ts";
import { checkCallbackUrl } from "./callback_url.ts";
import { lockConnection } from "./connection_lock.ts";
import { findConnection } from "./platform_record.ts";

/**
 * Sets or, with `null`, clears where a connection's events are delivered. Events from now on go there.
 * Throws `invalid_callback_url`, `not_found`.
 */
export async function setCallback(
  { db, callbacks }: { db: Database; callbacks: AddressPolicy },
  accountId: string,
  connectionId: string,
  callbackUrl: string | null,
): Promise<void> {
  const { connection_id } = await findConnection(db, accountId, connectionId);
  if (callbackUrl !== null) checkCallbackUrl(callbackUrl, callbacks);
  await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    await findConnection(tx, accountId, connection_id);
    await tx("connections").where({ connection_id }).update({ callback_url: callbackUrl });
  });
}
