import type { Pool, PoolClient } from "pg";
import { VERIFICATION_PRICE_MICRO_USD } from "../../accounts/ledger/amounts.ts";
import { type CreditSource, sliceOf } from "../../accounts/ledger/credit_source.ts";
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

/** The outcome of an item in a batch. `unfunded`: nothing happened, because its account pays otherwise. */
export type BatchOutcome = DecisionOutcome | { kind: "unfunded" };

type AnswerRow = {
  n: number;
  fresh: boolean;
  payable: boolean;
  decision: Decision | null;
  reason: Reason | null;
  receipt: string | null;
  receipt_hash: Buffer | null;
  /** Whether the account pays from the given source. */
  funded: boolean;
  before: number | null;
  low_at: number | null;
};

/**
 * Decides a batch whose accounts all pay from `source`, in the client's transaction or in a new one. Rejects
 * if it cannot confirm the commit. Calls `onAmple` with each account whose balance could be split.
 */
export async function decideBatch(
  database: Pool | PoolClient,
  items: readonly DecisionItem[],
  source: CreditSource = "balance",
  onAmple: (accountId: string) => void = () => {},
): Promise<BatchOutcome[]> {
  const { form, ...statement } = decisionStatement(items, source);
  const values = parametersOf(items, VERIFICATION_PRICE_MICRO_USD, form);
  const { rows } = await database.query<AnswerRow>({ ...statement, values });
  for (const { n, before, low_at } of rows) {
    if (before === null || low_at === null) continue;
    if (sliceOf({ balance_micro_usd: before, low_at_micro_usd: low_at }) > 0) {
      onAmple((items[n] as DecisionItem).accountId);
    }
  }
  const answers = new Map(rows.map((row) => [row.n, row]));
  return shareShortage(
    items,
    items.map((_, n) => outcomeOf(answers.get(n))),
  );
}

/** Returns the outcome of an unpaid item also for items that share its invocation or challenge. */
function shareShortage(items: readonly DecisionItem[], outcomes: BatchOutcome[]): BatchOutcome[] {
  const keysOf = ({ connectionId, challenge, invocation, rootAccountId }: DecisionItem) => [
    `${connectionId} challenge ${Buffer.from(challenge).toString("base64")}`,
    ...(invocation === null ? [] : [`${connectionId} invocation ${rootAccountId} ${invocation.id}`]),
  ];
  const unpaid = new Map<string, BatchOutcome>();
  for (const [n, outcome] of outcomes.entries()) {
    if (outcome.kind !== "credits_exhausted" && outcome.kind !== "unfunded") continue;
    for (const key of keysOf(items[n] as DecisionItem)) unpaid.set(key, outcome);
  }
  if (unpaid.size === 0) return outcomes;
  return items.map((item, n) => {
    const outcome = outcomes[n] as BatchOutcome;
    if (outcome.kind === "decided") return outcome;
    const [shared] = keysOf(item).flatMap((key) => unpaid.get(key) ?? []);
    return shared ?? outcome;
  });
}

function outcomeOf(row: AnswerRow | undefined): BatchOutcome {
  if (row === undefined) return { kind: "challenge_spent" };
  if (!row.fresh) return { kind: "invocation_taken" };
  if (!row.payable) return { kind: row.funded ? "credits_exhausted" : "unfunded" };
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
