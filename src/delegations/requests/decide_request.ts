import type { Transaction } from "../../db/database.ts";
import type { DelegationRequestRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";

/** What becomes of a pending request, by whom (an account), why and when. */
export type RequestDecision = {
  status: "approved" | "denied" | "withdrawn";
  decidedBy: string | null;
  reason: string | null;
  now: Date;
};

/**
 * Decides a pending request, once: of several decisions that race, one gets the request and the others
 * `request_not_pending`, as all do once it has expired. The caller holds the connection's lock.
 */
export async function decideRequest(
  tx: Transaction,
  requestId: string,
  { status, decidedBy, reason, now }: RequestDecision,
): Promise<DelegationRequestRow> {
  const [row] = await tx("delegation_requests")
    .where({ request_id: requestId, status: "pending" })
    .andWhere("expires_at", ">", now)
    .update({ status, decided_by: decidedBy, reason, decided_at: now })
    .returning("*");
  if (row === undefined) throw new ApiError("request_not_pending");
  return row;
}
