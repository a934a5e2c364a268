import { hash } from "node:crypto";
import type { Transaction } from "../../db/database.ts";
import type { BalanceRow } from "../../db/tables.ts";

/** Price of one decision in micro-USD (specification §8: 0.002 USD per verification). */
export const VERIFICATION_PRICE_MICRO_USD = 2_000;

/** The most that one amount may be: a million US dollars, in micro-USD. */
export const MOST_MICRO_USD = 1_000_000_000_000;

const MICRO = 1_000_000;
const DECIMALS = 6;
const DOLLARS = /^(0|[1-9]\d{0,6})(?:\.(\d{1,6}))?$/;

/**
 * The micro-USD of an amount that was typed in US dollars: above 0, up to a million, at most six decimals,
 * nothing but digits and a point. Undefined for anything else. The text is never read as a floating-point
 * number.
 */
export function parseUsd(text: string): number | undefined {
  const [match, whole = "", fraction = ""] = DOLLARS.exec(text) ?? [];
  if (match === undefined) return undefined;
  const amount = Number(whole) * MICRO + Number(fraction.padEnd(DECIMALS, "0"));
  return amount > 0 && amount <= MOST_MICRO_USD ? amount : undefined;
}

/** What a typed amount must be, for the message to a person who typed something else. */
export const USD_RULE = "a number of US dollars above 0 and up to 1000000, with at most six decimals";

/** An amount of micro-USD in US dollars, exactly: two decimals, and as many more as it needs. */
export function formatUsd(microUsd: number): string {
  const amount = Math.abs(microUsd);
  const fraction = String(amount % MICRO).padStart(DECIMALS, "0");
  const shown = fraction.replace(/0{1,4}$/, "");
  return `${microUsd < 0 ? "-" : ""}${Math.trunc(amount / MICRO)}.${shown}`;
}

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
