import type { Transaction } from "../../db/database.ts";
import type { DelegationRequestRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";

/**
 * A user of a cluster who decided there, under policies of this hash. `check` throws when that counts no
 * longer, and keeps it so until the transaction ends.
 */
export type ClusterDecider = {
  clusterId: string;
  username: string;
  policies: string;
  check(tx: Transaction): Promise<void>;
};

/** A signed-in person who decides, by their own account; `check` throws when they may not. */
export type MemberDecider = {
  accountId: string;
  check?(tx: Transaction, request: DelegationRequestRow): Promise<void>;
};

/** Who decides: a person with a session, or a user of a cluster in the owner's place. */
export type Decider = MemberDecider | ClusterDecider;

/** What becomes of a pending request, by whom, why and when. */
export type RequestDecision = {
  status: "approved" | "denied" | "withdrawn";
  by: Decider | null;
  reason: string | null;
  now: Date;
};

/**
 * Decides a pending request, once: of several decisions that race, one gets the request and the others
 * `request_not_pending`, as all do once it has expired. Whether who decides may do so is checked here. The
 * caller holds the connection's lock.
 */
export async function decideRequest(
  tx: Transaction,
  requestId: string,
  { status, by, reason, now }: RequestDecision,
): Promise<DelegationRequestRow> {
  const [row] = await tx("delegation_requests")
    .where({ request_id: requestId, status: "pending" })
    .andWhere("expires_at", ">", now)
    .update({ status, ...columnsOf(by), reason, decided_at: now })
    .returning("*");
  if (row === undefined) throw new ApiError("request_not_pending");
  await by?.check?.(tx, row);
  return row;
}

function columnsOf(by: Decider | null): Partial<DelegationRequestRow> {
  if (by === null) return {};
  if ("accountId" in by) return { decided_by: by.accountId };
  return {
    decided_cluster: by.clusterId,
    decided_user: by.username,
    decided_policies: by.policies,
  };
}
