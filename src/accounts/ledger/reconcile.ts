import type { Database } from "../../db/database.ts";
import { accountAfter, accountBounds, sliceEnd } from "./ledger_bounds.ts";
import { countPage, countSlice } from "./ledger_counts.ts";
import { differencesOf, type LedgerCount, type LedgerDifference, nothingOf } from "./ledger_difference.ts";

/** What a reconciliation saw. `accounts` and `postings` are how many it looked at. */
export type Reconciliation = { accounts: number; postings: number; differences: LedgerDifference[] };

/** Rows of each table that a statement reads, about. */
const PAGE_ROWS = 100_000;
const FIRST_ACCOUNT = "00000000-0000-0000-0000-000000000000";
const FIRST_MOMENT = "-infinity";
const LAST_MOMENT = "infinity";

/**
 * Compares every account's balance with its postings, its charges with the charged decisions of its history,
 * and its grants with what was recorded of them. A posting has one amount and two books, so that the sum over
 * all books is 0 in whatever there is to read.
 *
 * A decision touches one account, so that accounts are compared one after the other, page by page, each as of
 * one moment; one with more than `pageRows` rows in slices of its time, and as of one moment again before a
 * difference is reported. So no statement keeps a snapshot for long. Changes nothing; decisions go on
 * meanwhile.
 */
export async function reconcileLedger(
  database: Database,
  { pageRows = PAGE_ROWS }: { pageRows?: number } = {},
): Promise<Reconciliation> {
  const seen: Reconciliation = { accounts: 0, postings: 0, differences: [] };
  let from: string | null = FIRST_ACCOUNT;
  while (from !== null) {
    const { first, end } = await accountBounds(database, { from, rows: pageRows });
    if (first === null) break;
    const isPage: boolean = end === null || first < end;
    const page = isPage
      ? await comparePage(database, { first, end })
      : await compareLarge(database, first, pageRows);
    seen.accounts += page.accounts;
    seen.postings += page.postings;
    seen.differences.push(...page.differences);
    from = isPage ? end : await accountAfter(database, first);
  }
  return seen;
}

async function comparePage(
  database: Database,
  page: { first: string; end: string | null },
): Promise<Reconciliation> {
  const { accounts, postings, differing } = await countPage(database, page);
  return { accounts, postings, differences: differing.flatMap(differencesOf) };
}

async function compareLarge(database: Database, account: string, rows: number): Promise<Reconciliation> {
  let sum: LedgerCount = nothingOf(account);
  let after = FIRST_MOMENT;
  while (after !== LAST_MOMENT) {
    const until = await sliceEnd(database, { account, after, rows });
    sum = add(sum, await countSlice(database, { account, after, until }));
    after = until;
  }
  const found = { accounts: 1, postings: sum.postings, differences: differencesOf(sum) };
  if (found.differences.length === 0) return found;
  const whole = await countSlice(database, { account, after: FIRST_MOMENT, until: LAST_MOMENT });
  return { ...found, differences: differencesOf(whole) };
}

/**
 * The count of an account up to the end of a slice. The balance is of the latest statement: what is charged
 * later is not in it.
 */
function add(sum: LedgerCount, slice: LedgerCount): LedgerCount {
  return {
    account_id: sum.account_id,
    postings: sum.postings + slice.postings,
    strays: sum.strays + slice.strays,
    credit: sum.credit + slice.credit,
    balance: slice.balance,
    lone_charges: sum.lone_charges + slice.lone_charges,
    lone_decisions: sum.lone_decisions + slice.lone_decisions,
    lone_grants: sum.lone_grants + slice.lone_grants,
  };
}
