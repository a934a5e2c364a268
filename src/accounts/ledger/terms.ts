import { randomBytes } from "node:crypto";
import type { Database } from "../../db/database.ts";
import type { CreditTerms } from "../../db/tables.ts";
import { AccountWithoutBalance } from "./grants.ts";

/** New terms of an account, and why. */
export type TermsChange = { accountId: string; terms: CreditTerms; reason: string };

/**
 * Changes when an account pays, in one transaction with the record of the change. Returns whether anything
 * changed: the same terms again change and record nothing. The balance stays, and a prepaid account uses it
 * again. Throws `AccountWithoutBalance` before the account has completed its onboarding.
 */
export async function changeTerms(
  database: Database,
  { accountId, terms, reason }: TermsChange,
  now: Date,
): Promise<boolean> {
  return database.transaction(async (tx) => {
    await tx.raw("select join_slices(?)", [accountId]);
    const own = { account_id: accountId };
    const before = await tx("balances").where(own).first("terms");
    if (before === undefined) throw new AccountWithoutBalance();
    if (before.terms === terms) return false;
    await tx("balances").where(own).update({ terms });
    await tx("credit_terms").insert({ ...own, posted_at: now, posting_id: randomBytes(32), terms, reason });
    return true;
  });
}
