import { hash } from "node:crypto";
import type { Database, Transaction } from "../../db/database.ts";
import { formatUsd, lowMark } from "./amounts.ts";

/** A refused grant, which changed nothing. The message gives the reason to the person who requested it. */
export class GrantError extends Error {}

/** A change of credit that was refused because the account has none yet. */
export class AccountWithoutBalance extends Error {
  override message = "The account has not completed its onboarding, so it has no balance yet";
}

/** Credit for an account, in whole micro-USD. A reference can be used once. */
export type Grant = { accountId: string; amount: number; reason: string; reference: string };

/** A grant that is in the ledger. */
export type PostedGrant = Grant & {
  postingId: Buffer;
  postedAt: Date;
  /** Whether the grant was already in the ledger. */
  repeated: boolean;
  /** The account's current balance. */
  balance: number;
};

/** The highest balance in micro-USD: one billion US dollars, which a JavaScript number represents exactly. */
const MOST_BALANCE = 1_000_000_000_000_000;

/**
 * Grants credit to an account in one transaction: a posting from the book `grants` to the account's book
 * `credit`, the new balance, and the new low mark. The transaction and decisions that charge the account wait
 * for each other, so that neither change is lost.
 *
 * If the reference was already used for the same account and amount, returns the earlier posting with its
 * original reason, and changes nothing. Throws `GrantError` if the reference was used for a different account
 * or amount, or if the balance would be too high, and `AccountWithoutBalance` if there is no balance yet.
 */
export async function grantCredits(database: Database, grant: Grant, now: Date): Promise<PostedGrant> {
  return database.transaction(async (tx) => {
    const postingId = hash("sha256", `grant:${grant.reference}`, "buffer");
    const entered = await tx("credit_grants")
      .insert({
        reference: grant.reference,
        account_id: grant.accountId,
        posted_at: now,
        posting_id: postingId,
        reason: grant.reason,
        amount_micro_usd: grant.amount,
      })
      // A concurrent grant with the same reference and time conflicts in both unique keys.
      .onConflict()
      .ignore()
      .returning("reference");
    if (entered.length === 0) return readRepeated(tx, grant);
    const balance = await credit(tx, grant);
    await tx("ledger_postings").insert({
      account_id: grant.accountId,
      posted_at: now,
      posting_id: postingId,
      kind: "grant",
      debit_book: "grants",
      credit_book: "credit",
      amount_micro_usd: grant.amount,
    });
    return { ...grant, postingId, postedAt: now, repeated: false, balance };
  });
}

async function credit(tx: Transaction, { accountId, amount }: Grant): Promise<number> {
  const own = { account_id: accountId };
  await tx.raw("select join_slices(?)", [accountId]);
  const before = await tx("balances").where(own).first("balance_micro_usd");
  if (before === undefined) {
    throw new AccountWithoutBalance();
  }
  const balance = before.balance_micro_usd + amount;
  if (balance > MOST_BALANCE) {
    throw new GrantError(`The balance would be more than ${formatUsd(MOST_BALANCE)} USD; grant less`);
  }
  await tx("balances")
    .where(own)
    .update({ balance_micro_usd: balance, low_at_micro_usd: lowMark(balance) });
  return balance;
}

async function readRepeated(tx: Transaction, { accountId, amount, reference }: Grant): Promise<PostedGrant> {
  const posted = await tx("credit_grants as g")
    .join("ledger_postings as p", (on) =>
      on
        .on("p.account_id", "g.account_id")
        .andOn("p.posted_at", "g.posted_at")
        .andOn("p.posting_id", "g.posting_id"),
    )
    .join("account_credit as b", "b.account_id", "g.account_id")
    .where("g.reference", reference)
    .first(
      "g.account_id",
      "g.reason",
      "p.posting_id",
      "p.posted_at",
      "p.amount_micro_usd",
      "b.balance_micro_usd",
    );
  if (posted === undefined) throw new Error("An existing grant has no posting");
  if (posted.account_id !== accountId || posted.amount_micro_usd !== amount) {
    const other =
      posted.account_id === accountId
        ? `${formatUsd(posted.amount_micro_usd)} USD to this account`
        : "credit to another account";
    throw new GrantError(
      `The reference ${reference} was used before, to grant ${other}; use a new reference`,
    );
  }
  return {
    accountId,
    amount,
    reason: posted.reason,
    reference,
    postingId: posted.posting_id,
    postedAt: posted.posted_at,
    repeated: true,
    balance: posted.balance_micro_usd,
  };
}
