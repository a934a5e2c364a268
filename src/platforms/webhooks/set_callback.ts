import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import type { AddressPolicy } from "../../events/webhooks/callbacks/addresses.ts";
import { endSuspension } from "../../events/webhooks/endpoint.ts";
import { lockConnection } from "../connection_lock.ts";
import { findConnection } from "../platform_record.ts";
import { checkCallbackUrl } from "./check_callback_url.ts";

/**
 * Sets or, with `null`, clears where a connection's events are delivered. Events from now on go there, and so
 * do those that are still to be delivered; an endpoint that was suspended is resumed, one that its owner has
 * paused stays paused.
 * Throws `invalid_callback_url`, `not_found`.
 */
export async function setCallback(
  { db, callbacks, clock }: { db: Database; callbacks: AddressPolicy; clock: Clock },
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
    if (callbackUrl !== null) await endSuspension(tx, connection_id, "replay", clock.now());
  });
}
