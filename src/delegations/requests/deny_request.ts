import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { appendEvent } from "../../events/outbox.ts";
import { lockConnection } from "../../platforms/connection_lock.ts";
import type { SecretBox } from "../../secret_box.ts";
import { type Decider, decideRequest } from "./decide_request.ts";
import { findRequest } from "./request_record.ts";

/**
 * Denies a pending request and emits `delegation.denied`. Throws `not_found`, `request_not_pending`.
 */
export async function denyRequest(
  { db, secretBox, clock }: { db: Database; secretBox: SecretBox; clock: Clock },
  accountId: string,
  requestId: string,
  { reason, decider }: { reason: string | null; decider: Decider },
): Promise<void> {
  const { connection_id, agent_id } = await findRequest(
    db,
    { accountId, connectionId: null },
    requestId,
    clock.now(),
  );
  await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    const now = clock.now();
    await decideRequest(tx, requestId, { status: "denied", by: decider, reason, now });
    const fields = { request_id: requestId, connection_id, org_id: accountId, agent_id };
    await appendEvent(tx, secretBox, { type: "delegation.denied", connectionId: connection_id, fields }, now);
  });
}
