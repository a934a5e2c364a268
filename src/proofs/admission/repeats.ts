import type { Clock } from "../../clock.ts";
import { createKeyCounts } from "../../concurrency/key_counts.ts";
import type { Database } from "../../db/database.ts";
import type { AuditEventRow, InvocationRow } from "../../db/tables.ts";
import { ApiError, rateLimited } from "../../errors.ts";
import { ACCOUNT_SHARE, createPace, type Pace } from "../../rates/pace.ts";
import type { ApiKeyCaller } from "../../route.ts";
import type { Decided } from "../decide/decision.ts";
import type { Receipt } from "../decide/decision_receipt.ts";
import type { Decision, Reason } from "../decide/reasons.ts";
import { type Operation, operationHash } from "../operation.ts";

/** The recorded decision on an operation. */
export type RecordedDecision = Pick<InvocationRow, "operation_hash" | "error_reason"> &
  Pick<AuditEventRow, "decision" | "decision_reason"> & { receipt: string; receipt_hash: Buffer };

/** Finds the recorded decision on a connection's invocation. Returns `undefined` if there is no decision. */
export type FindRecorded = (
  caller: ApiKeyCaller,
  invocationId: string,
) => Promise<RecordedDecision | undefined>;

/** Creates a function that finds recorded decisions by the application's own id for the operation. */
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

/** Converts a recorded decision to an answer. Throws `invocation_conflict` if the operations differ. */
export function replay(
  recorded: RecordedDecision,
  { operation, required_scope: requiredScope, context }: AskedAgain,
): Decided {
  if (!recorded.operation_hash.equals(operationHash({ operation, requiredScope, context }))) {
    throw new ApiError("invocation_conflict");
  }
  return {
    decision: recorded.decision as Decision,
    reason: recorded.decision_reason as Reason,
    errorReason: recorded.error_reason,
    receipt: JSON.parse(recorded.receipt) as Receipt,
    receiptHash: recorded.receipt_hash,
    replayed: true,
  };
}

type AskedAgain = {
  operation: Operation;
  required_scope: string;
  context?: Readonly<Record<string, string | number | undefined>> | undefined;
};
type Asked = { caller: ApiKeyCaller; invocationId: string };

/** Bounds the work for repeated decisions, which are not charged. */
export type Repeats = {
  /**
   * Decides with `decide`, and counts the call if the operation already had a decision. If the running calls
   * could use up all remaining repeats, first looks for a recorded decision, and throws `rate_limited` if it
   * finds one. Operations without a decision are never refused.
   */
  guard(asked: Asked, decide: () => Promise<Decided>): Promise<Decided>;
};

/** Allows at most `perMinute` repeats for a connection, in this process. */
export function createRepeats(deps: {
  perMinute: number;
  clock: Clock;
  findRecorded: FindRecorded;
}): Repeats {
  const { perMinute, clock, findRecorded } = deps;
  const byConnection = createPace({ perMinute, clock });
  const byAccount = createPace({ perMinute: ACCOUNT_SHARE * perMinute, clock });
  const running = createKeyCounts();
  const ratesOf = ({ accountId, connectionId, isCustomer }: ApiKeyCaller): Rate[] => [
    { pace: byConnection, key: connectionId },
    ...(isCustomer ? [] : [{ pace: byAccount, key: accountId }]),
  ];
  const isFull = ({ pace, key }: Rate) => running.count(key) >= pace.look(key).remaining;
  return {
    async guard({ caller, invocationId }, decide) {
      const rates = ratesOf(caller);
      const full = rates.find(isFull);
      if (full !== undefined && (await findRecorded(caller, invocationId)) !== undefined) {
        throw rateLimited(
          "Too many decisions of this connection or account were repeated",
          full.pace.look(full.key).waitMs,
        );
      }
      for (const { key } of rates) running.enter(key);
      try {
        const decided = await decide();
        if (decided.replayed) countAll(rates);
        return decided;
      } catch (error) {
        if (isInvocationConflict(error)) countAll(rates);
        throw error;
      } finally {
        for (const { key } of rates) running.leave(key);
      }
    },
  };
}

type Rate = { pace: Pace; key: string };

function countAll(rates: readonly Rate[]): void {
  for (const { pace, key } of rates) pace.take(key);
}

function isInvocationConflict(error: unknown): boolean {
  return error instanceof ApiError && error.code === "invocation_conflict";
}
