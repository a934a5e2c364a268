import { hash } from "node:crypto";
import type { Database, Transaction } from "../../db/database.ts";
import { formatUsd, lowMark } from "./amounts.ts";

/** A grant that was refused; nothing was changed. The message says why, for the person who asked for it. */
export class GrantError extends Error {}

/** Credit for an account, in whole micro-USD. A reference is used once. */
export type Grant = { accountId: string; amount: number; reason: string; reference: string };

/** A grant that is in the ledger. */
export type PostedGrant = Grant & {
  postingId: Buffer;
  postedAt: Date;
  /** Whether it was there before. */
  repeated: boolean;
  /** The account's balance now. */
  balance: number;
};

/** The most that a balance may be, a thousand million US dollars: numbers stay exact far beyond. */
const MOST_BALANCE = 1_000_000_000_000_000;

/**
 * Credits an account: a posting of kind `grant` from the book `grants` to the account's book `credit`, the
 * balance, and the mark at which it is low, in one transaction. It waits for decisions that charge the
 * account and they for it, so that neither is lost.
 *
 * A reference that was used before for the same account and amount gives that posting again, with its own
 * reason, and changes nothing. Throws `GrantError` when the reference was used for something else, the
 * account has no balance yet, or would have too much.
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
      .onConflict("reference")
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
  const before = await tx("balances").where(own).forUpdate().first("balance_micro_usd");
  if (before === undefined) {
    throw new GrantError("The account has not completed its onboarding, so it has no balance yet");
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
    .join("balances as b", "b.account_id", "g.account_id")
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
    throw new GrantError(`The reference ${reference} was used before, to grant ${other}; give a new one`);
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
