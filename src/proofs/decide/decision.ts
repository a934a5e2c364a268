import type { Pool, PoolClient } from "pg";
import { VERIFICATION_PRICE_MICRO_USD } from "../../accounts/ledger/amounts.ts";
import { ApiError } from "../../errors.ts";
import { decisionStatement } from "./decide_and_charge.ts";
import { type DecisionItem, parametersOf } from "./decision_item.ts";
import type { Receipt } from "./decision_receipt.ts";
import type { Decision, Reason } from "./reasons.ts";

/** The outcome of an item. A refused item records, charges and spends nothing. */
export type DecisionOutcome =
  | {
      kind: "decided";
      decision: Decision;
      reason: Reason;
      /** The whole receipt in canonical JSON, exactly as it was hashed. */
      receipt: string;
      receiptHash: Buffer;
    }
  | { kind: "challenge_spent" }
  | { kind: "invocation_taken" }
  | { kind: "credits_exhausted" };

/** A decision as the API returns it: recorded, charged and final. */
export type Decided = {
  decision: Decision;
  reason: Reason;
  /** Null for `allow`. In the protocol's wording if a rule of the protocol decided. */
  errorReason: string | null;
  receipt: Receipt;
  receiptHash: Buffer;
  /** True if an earlier call made this decision. */
  replayed: boolean;
};

type AnswerRow = {
  n: number;
  fresh: boolean;
  payable: boolean;
  decision: Decision | null;
  reason: Reason | null;
  receipt: string | null;
  receipt_hash: Buffer | null;
};

/** Decides a batch, in the client's transaction or in a new one. Rejects if it cannot confirm the commit. */
export async function decideBatch(
  database: Pool | PoolClient,
  items: readonly DecisionItem[],
): Promise<DecisionOutcome[]> {
  const { rows } = await database.query<AnswerRow>({
    ...decisionStatement(items),
    values: parametersOf(items, VERIFICATION_PRICE_MICRO_USD),
  });
  const answers = new Map(rows.map((row) => [row.n, row]));
  return shareExhaustion(
    items,
    items.map((_, n) => outcomeOf(answers.get(n))),
  );
}

/** Returns `credits_exhausted` also for items that share an invocation or challenge with an unpaid item. */
function shareExhaustion(items: readonly DecisionItem[], outcomes: DecisionOutcome[]): DecisionOutcome[] {
  if (!outcomes.some(({ kind }) => kind === "credits_exhausted")) return outcomes;
  const keysOf = ({ connectionId, challenge, invocation, rootAccountId }: DecisionItem) => [
    `${connectionId} challenge ${Buffer.from(challenge).toString("base64")}`,
    ...(invocation === null ? [] : [`${connectionId} invocation ${rootAccountId} ${invocation.id}`]),
  ];
  const exhausted = new Set(
    items.filter((_, n) => outcomes[n]?.kind === "credits_exhausted").flatMap(keysOf),
  );
  return items.map((item, n) => {
    const outcome = outcomes[n] as DecisionOutcome;
    const isBehind = outcome.kind !== "decided" && keysOf(item).some((key) => exhausted.has(key));
    return isBehind ? { kind: "credits_exhausted" } : outcome;
  });
}

function outcomeOf(row: AnswerRow | undefined): DecisionOutcome {
  if (row === undefined) return { kind: "challenge_spent" };
  if (!row.fresh) return { kind: "invocation_taken" };
  if (!row.payable) return { kind: "credits_exhausted" };
  const { decision, reason, receipt, receipt_hash: receiptHash } = row;
  if (decision === null || reason === null || receipt === null || receiptHash === null) {
    return { kind: "challenge_spent" };
  }
  return { kind: "decided", decision, reason, receipt, receiptHash };
}

/**
 * Returns the committed decision, or `undefined` if the operation already had one. Throws the `ApiError` that
 * explains why there is no decision.
 */
export function decidedOf(item: DecisionItem, outcome: DecisionOutcome): Decided | undefined {
  if (outcome.kind === "invocation_taken") return undefined;
  if (outcome.kind === "credits_exhausted") throw new ApiError("credits_exhausted");
  if (outcome.kind === "challenge_spent") throw new ApiError("invalid_challenge");
  const { decision, reason, receipt, receiptHash } = outcome;
  return {
    decision,
    reason,
    errorReason: reason === item.reason ? item.errorReason : reason,
    receipt: JSON.parse(receipt) as Receipt,
    receiptHash,
    replayed: false,
  };
}
