import type { Database } from "../../db/database.ts";
import type { AuditEventRow, InvocationRow } from "../../db/tables.ts";
import type { ApiKeyCaller } from "../../route.ts";

/** A decision on an operation that was made before, as it was recorded. */
export type RecordedDecision = Pick<InvocationRow, "operation_hash" | "error_reason"> &
  Pick<AuditEventRow, "decision" | "decision_reason"> & { receipt: string; receipt_hash: Buffer };

/** Finds the decision that this connection's invocation got; nothing when it got none. */
export type FindRecorded = (
  caller: ApiKeyCaller,
  invocationId: string,
) => Promise<RecordedDecision | undefined>;

/** Reads recorded decisions of operation-bound proofs by the application's own id of the operation. */
export function createRecordedFinder(db: Database): FindRecorded {
  return async ({ accountId, connectionId }, invocationId) =>
    db("invocations as i")
      .join("audit_events as e", (on) =>
        on
          .on("e.account_id", "i.account_id")
          .on("e.occurred_at", "i.decided_at")
          .on("e.event_id", "i.event_id"),
      )
      .where({ "i.account_id": accountId, "i.connection_id": connectionId, "i.invocation_id": invocationId })
      .first(
        "i.operation_hash",
        "i.error_reason",
        "e.decision",
        "e.decision_reason",
        "e.receipt",
        "e.receipt_hash",
      );
}
