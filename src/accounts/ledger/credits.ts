import { hash } from "node:crypto";
import type { Transaction } from "../../db/database.ts";
import type { BalanceRow } from "../../db/tables.ts";
import { VERIFICATION_PRICE_MICRO_USD } from "./price.ts";

type Balance = Pick<BalanceRow, "balance_micro_usd" | "low_at_micro_usd">;

/** A balance is low when it falls to this part of what it was after the last credit. */
const LOW_PART = 5;

/** How an account's credit is: `low` at its mark, `exhausted` when it pays for no decision any more. */
export const creditLevels = ["enough", "low", "exhausted"] as const;
export type CreditLevel = (typeof creditLevels)[number];

/** The level of a balance. */
export function creditLevel({ balance_micro_usd, low_at_micro_usd }: Balance): CreditLevel {
  if (balance_micro_usd < VERIFICATION_PRICE_MICRO_USD) return "exhausted";
  return balance_micro_usd <= low_at_micro_usd ? "low" : "enough";
}

/** The balance at which one that was just credited will be low: 20 % of it, in whole micro-USD. */
export function lowMark(balanceMicroUsd: number): number {
  return Math.floor(balanceMicroUsd / LOW_PART);
}

/**
 * Opens the account's balance with its alpha credits, in micro-USD: a posting from the book `grants` to the
 * account's book `credit`, and a balance of the same amount. Once per account; a second call fails and
 * changes nothing.
 */
export async function grantAlphaCredits(
  tx: Transaction,
  { accountId, amount }: { accountId: string; amount: number },
  now: Date,
): Promise<void> {
  await tx("balances").insert({
    account_id: accountId,
    balance_micro_usd: amount,
    low_at_micro_usd: lowMark(amount),
  });
  if (amount === 0) return;
  await tx("ledger_postings").insert({
    account_id: accountId,
    posted_at: now,
    posting_id: hash("sha256", `alpha_credit:${accountId}`, "buffer"),
    kind: "alpha_credit",
    debit_book: "grants",
    credit_book: "credit",
    amount_micro_usd: amount,
  });
}
