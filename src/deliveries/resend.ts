import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { lockConnection } from "../platforms/connection_lock.ts";
import { findConnection } from "../platforms/platform_record.ts";
import { endpointIdOf } from "../webhooks/endpoint.ts";
import { resendDelivery } from "../webhooks/resend.ts";
import { type DeliveryRecord, findDelivery } from "./delivery_record.ts";
import type { SendingRates } from "./rates.ts";
import type { OwnConnection } from "./webhook_secret.ts";

/** What sending again works with. */
export type ResendDeps = { db: Database; clock: Clock; sendingRates: SendingRates };

/**
 * Has a delivery of the account's connection sent again and gives it as it then is. Throws `not_found`,
 * `rate_limited`, and a code of {@link resendRefusal}; then nothing has changed.
 */
export async function resendOwnDelivery(
  { db, clock, sendingRates }: ResendDeps,
  { accountId, connectionId }: OwnConnection,
  deliveryId: string,
): Promise<DeliveryRecord> {
  const { connection_id } = await findConnection(db, accountId, connectionId);
  const endpointId = endpointIdOf(connection_id);
  const { delivery_id } = await findDelivery(db, endpointId, deliveryId);
  await sendingRates.takeResend(connection_id);
  const refusal = await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    await findConnection(tx, accountId, connection_id);
    return resendDelivery(tx, endpointId, delivery_id, clock.now());
  });
  if (refusal !== undefined) throw new ApiError(refusal);
  return findDelivery(db, endpointId, delivery_id);
}
