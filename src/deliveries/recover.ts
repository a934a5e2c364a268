import type { Database } from "../db/database.ts";
import type { WebhookRecoveryRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import { isUuid, newId } from "../ids.ts";
import { lockConnection } from "../platforms/connection_lock.ts";
import { findConnection } from "../platforms/platform_record.ts";
import { endpointIdOf, ensureEndpoints } from "../webhooks/endpoint.ts";
import { requireActiveCallback } from "./require_callback.ts";
import type { ResendDeps } from "./resend.ts";
import type { OwnConnection } from "./webhook_secret.ts";

/** What is to be sent again: deliveries by the moment of their making, from `since` on and before `until`. */
export type RecoveryWish = { since: Date; until: Date | undefined; states: WebhookRecoveryRow["states"] };

/**
 * Opens a recovery of a connection's deliveries, which the worker works off. What is made after this call is
 * not in its range. Throws `not_found`, `no_callback`, `callback_inactive`, `recovery_open`, `rate_limited`,
 * and `invalid_request` when the range is empty.
 */
export async function openRecovery(
  { db, clock, sendingRates }: ResendDeps,
  { accountId, connectionId }: OwnConnection,
  { since, until, states }: RecoveryWish,
): Promise<WebhookRecoveryRow> {
  const record = await findConnection(db, accountId, connectionId);
  const { connection_id } = record;
  const now = clock.now();
  const end = until !== undefined && until < now ? until : now;
  if (since >= end) throw new ApiError("invalid_request", "since: must be before until, and in the past");
  requireActiveCallback(record);
  const endpointId = endpointIdOf(connection_id);
  const open = await db("webhook_recoveries")
    .where({ endpoint_id: endpointId, state: "running" })
    .first("recovery_id");
  if (open !== undefined) throw new ApiError("recovery_open");
  await sendingRates.takeRecovery(connection_id);
  return db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    requireActiveCallback(await findConnection(tx, accountId, connection_id));
    await ensureEndpoints(tx, [connection_id], now);
    const [opened] = await tx("webhook_recoveries")
      .insert({
        recovery_id: newId(),
        endpoint_id: endpointId,
        since,
        until: end,
        states,
        seen_at: since,
        stepped_at: now,
        created_at: now,
      })
      .onConflict(tx.raw("(endpoint_id) where finished_at is null"))
      .ignore()
      .returning("*");
    if (opened === undefined) throw new ApiError("recovery_open");
    return opened;
  });
}

/** A connection's recovery with this id. Throws `not_found` when there is none. */
export async function findRecovery(
  db: Database,
  { accountId, connectionId }: OwnConnection,
  recoveryId: string,
): Promise<WebhookRecoveryRow> {
  const { connection_id } = await findConnection(db, accountId, connectionId);
  if (!isUuid(recoveryId)) throw new ApiError("not_found");
  const found = await db("webhook_recoveries")
    .where({ recovery_id: recoveryId, endpoint_id: endpointIdOf(connection_id) })
    .first();
  if (found === undefined) throw new ApiError("not_found");
  return found;
}
