import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { type AddressPolicy, callbackUrlForm } from "../webhooks/callback_address.ts";
import { endSuspension } from "../webhooks/endpoint.ts";
import { lockConnection } from "./connection_lock.ts";
import { findConnection } from "./platform_record.ts";

/**
 * Refuses with `invalid_callback_url` what a callback URL's text alone shows to be wrong: outside development
 * anything but https; a user or password; this machine or a literal address, unless the policy opens it;
 * characters that a URL parser drops without a word. What its name resolves to is checked at every delivery.
 */
export function checkCallbackUrl(text: string, policy: AddressPolicy): void {
  const form = callbackUrlForm(text, policy);
  if ("refused" in form) throw new ApiError("invalid_callback_url", `callback_url: ${form.refused}`);
  if (/[\s\p{Cc}]/u.test(text)) {
    throw new ApiError(
      "invalid_callback_url",
      "callback_url: must not contain white space or control characters",
    );
  }
}

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
