import { hash } from "node:crypto";
import type { Transaction } from "../../db/database.ts";
import type { AccountCreditRow } from "../../db/tables.ts";

/** Price of one decision in micro-USD (specification §8: 0.002 USD per verification). */
export const VERIFICATION_PRICE_MICRO_USD = 2_000;

/** The highest amount of one grant in micro-USD: one million US dollars. */
export const MOST_MICRO_USD = 1_000_000_000_000;

const MICRO = 1_000_000;
const DECIMALS = 6;
const DOLLARS = /^(0|[1-9]\d{0,6})(?:\.(\d{1,6}))?$/;

/**
 * Parses an amount in US dollars and returns micro-USD, without floating-point arithmetic. Returns
 * `undefined` unless the text has only digits and at most six decimals, and the amount is above 0 and at most
 * a million.
 */
export function parseUsd(text: string): number | undefined {
  const [match, whole = "", fraction = ""] = DOLLARS.exec(text) ?? [];
  if (match === undefined) return undefined;
  const amount = Number(whole) * MICRO + Number(fraction.padEnd(DECIMALS, "0"));
  return amount > 0 && amount <= MOST_MICRO_USD ? amount : undefined;
}

/** The rule for amounts in US dollars, for error messages. */
export const USD_RULE = "a number of US dollars above 0 and up to 1000000, with at most six decimals";

/** Formats micro-USD as US dollars without rounding, with two decimals or as many more as needed. */
export function formatUsd(microUsd: number): string {
  const amount = Math.abs(microUsd);
  const fraction = String(amount % MICRO).padStart(DECIMALS, "0");
  const shown = fraction.replace(/0{1,4}$/, "");
  return `${microUsd < 0 ? "-" : ""}${Math.trunc(amount / MICRO)}.${shown}`;
}

type Credit = Omit<AccountCreditRow, "account_id">;

const LOW_PART = 5;

/** Levels of credit: `low` at or below the low mark, `exhausted` if it cannot pay for a decision. */
export const creditLevels = ["enough", "low", "exhausted"] as const;
export type CreditLevel = (typeof creditLevels)[number];

/** Returns the level of an account's credit. A postpaid account always has enough. */
export function creditLevel({ balance_micro_usd, low_at_micro_usd, terms }: Credit): CreditLevel {
  if (terms === "postpaid") return "enough";
  if (balance_micro_usd < VERIFICATION_PRICE_MICRO_USD) return "exhausted";
  return balance_micro_usd <= low_at_micro_usd ? "low" : "enough";
}

/** Returns the low mark of a balance that just received credit: 20 % of it, in whole micro-USD. */
export function lowMark(balanceMicroUsd: number): number {
  return Math.floor(balanceMicroUsd / LOW_PART);
}

/**
 * Opens the account's balance with its alpha credits, in micro-USD, and posts them from the book `grants` to
 * the account's book `credit`. A second call for the same account fails and changes nothing.
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

/**
 * Records that the account with this address had the alpha credit. Returns false if that was recorded before.
 * The row has only a keyed hash of the address, and outlives the account: otherwise a person could delete the
 * account, or change its address, and get the credit again.
 */
export async function recordCreditedAddress(
  tx: Transaction,
  hashes: { address(email: string): Buffer },
  email: string,
): Promise<boolean> {
  const recorded = await tx("credited_addresses")
    .insert({ address_hash: hashes.address(email) })
    .onConflict()
    .ignore()
    .returning("address_hash");
  return recorded.length > 0;
}
