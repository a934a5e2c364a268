import type { Database } from "../db/connection.ts";

/**
 * What can be wrong with an account's ledger. Closed.
 *
 * - `balance`: the balance is not what was credited less what was charged; amounts in micro-USD
 * - `books`: postings between other books than their kind moves amounts between
 * - `charge_without_decision`: charges at a moment that has fewer charged decisions in the history
 * - `decision_without_charge`: charged decisions at a moment that has fewer charges
 */
export const differenceKinds = [
  "balance",
  "books",
  "charge_without_decision",
  "decision_without_charge",
] as const;

/** One difference of one account: what the postings, or the rules, say and what is there. But for `balance`, counts. */
export type LedgerDifference = {
  account_id: string;
  kind: (typeof differenceKinds)[number];
  expected: number;
  found: number;
};

/** What a reconciliation saw. `accounts` and `postings` are how many it looked at. */
export type Reconciliation = { accounts: number; postings: number; differences: LedgerDifference[] };

/*
 * posted    what an account's postings come to
 * charged   decisions of the history that cost something: allow and deny
 * moments   a charge is posted at the moment of its decision, so both are counted by it: an invented charge cannot hide
 *           behind one that is lacking
 */
const COMPARE = `
with posted as (
  select account_id, count(*) as postings,
         sum(case 'credit' when credit_book then amount_micro_usd when debit_book then -amount_micro_usd else 0 end) as credit,
         count(*) filter (where (kind, debit_book, credit_book) not in
           (('alpha_credit', 'grants', 'credit'), ('verification', 'credit', 'revenue'))) as strays
  from ledger_postings group by account_id
), charged as (
  select account_id, occurred_at as at from audit_events where decision in ('allow', 'deny')
), moments as (
  select account_id, sum(charges) as charges, sum(decisions) as decisions,
         sum(least(charges, decisions)) as matched
  from (
    select account_id, at, sum(charge) as charges, sum(decision) as decisions
    from (
      select account_id, posted_at as at, 1 as charge, 0 as decision from ledger_postings where kind = 'verification'
      union all
      select account_id, at, 0, 1 from charged
    ) as events group by account_id, at
  ) as counted group by account_id
), compared as materialized (
  select account_id, coalesce(postings, 0)::bigint as postings, coalesce(strays, 0)::bigint as strays,
         coalesce(credit, 0)::bigint as credit, coalesce(balance_micro_usd, 0)::bigint as balance,
         coalesce(charges - matched, 0)::bigint as lone_charges,
         coalesce(decisions - matched, 0)::bigint as lone_decisions
  from balances
  full join posted using (account_id)
  full join moments using (account_id)
), total as (
  select count(*) as accounts, coalesce(sum(postings), 0)::bigint as total_postings from compared
)
select total.*, compared.* from total
left join compared on credit <> balance or strays + lone_charges + lone_decisions > 0
order by account_id`;

type Row = { accounts: number; total_postings: number } & (
  | { account_id: null }
  | {
      account_id: string;
      strays: number;
      credit: number;
      balance: number;
      lone_charges: number;
      lone_decisions: number;
    }
);

/**
 * Compares every account's balance with its postings, and its charges with the charged decisions of its history, as of one
 * moment. A posting has one amount and two books, so that the sum over all books is 0 in whatever there is to read.
 * Changes nothing; decisions go on meanwhile.
 */
export async function reconcileLedger(database: Database): Promise<Reconciliation> {
  const { rows } = await database.transaction(
    async (tx) => {
      await tx.raw("set local work_mem = '64MB'");
      return tx.raw<{ rows: Row[] }>(COMPARE);
    },
    { readOnly: true },
  );
  const { accounts = 0, total_postings: postings = 0 } = rows[0] ?? {};
  return { accounts, postings, differences: rows.flatMap(differencesOf) };
}

function differencesOf(row: Row): LedgerDifference[] {
  if (row.account_id === null) return [];
  const { account_id } = row;
  const compared: [LedgerDifference["kind"], number, number][] = [
    ["balance", row.credit, row.balance],
    ["books", 0, row.strays],
    ["charge_without_decision", 0, row.lone_charges],
    ["decision_without_charge", 0, row.lone_decisions],
  ];
  return compared
    .filter(([, expected, found]) => expected !== found)
    .map(([kind, expected, found]) => ({ account_id, kind, expected, found }));
}
