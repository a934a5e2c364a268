import { addSeconds } from "../clock.ts";
import type { Transaction } from "../db/database.ts";
import { appendAccountEvent } from "../events/account_events.ts";

const DAY = 24 * 60 * 60;
/** Most mails about suspensions that an account gets within 24 hours. */
export const NOTICES_PER_DAY = 5;

/**
 * Appends the event of which the account's owner gets a mail, in the transaction that suspends an endpoint.
 * One a day for an endpoint and five for an account: whoever has a callback resumed and suspended in turns,
 * or declares many platforms, fills nobody's mailbox. None for a connection that is removed. Locks the
 * account's balance, so that concurrent suspensions count each other.
 */
export async function noticeSuspension(tx: Transaction, endpointId: string, now: Date): Promise<void> {
  const suspended = await tx("webhook_endpoints as e")
    .join("connections as c", "c.connection_id", "e.connection_id")
    .where({ "e.endpoint_id": endpointId })
    .whereNull("c.removed_at")
    .first("c.account_id", "c.connection_id", "e.suspend_reason");
  if (suspended === undefined) return;
  const { account_id, connection_id, suspend_reason: reason } = suspended;
  await tx("balances").where({ account_id }).forNoKeyUpdate().first("account_id");
  const noticed: string[] = await tx("connections as c")
    .join("webhook_endpoints as e", "e.connection_id", "c.connection_id")
    .where({ "c.account_id": account_id })
    .where("e.noticed_at", ">", addSeconds(now, -DAY))
    .limit(NOTICES_PER_DAY)
    .pluck("e.endpoint_id");
  if (noticed.length >= NOTICES_PER_DAY || noticed.includes(endpointId)) return;
  await tx("webhook_endpoints").where({ endpoint_id: endpointId }).update({ noticed_at: now });
  const fields = { account_id, connection_id, reason, occurred_at: now.toISOString() };
  await appendAccountEvent(tx, { type: "webhook.suspended", ...fields }, now);
}
