import type { Database } from "../../db/database.ts";

/**
 * The kinds of errors that reconciliation can find in an account's ledger.
 *
 * - `balance`: the balance differs from all credits minus all charges, in micro-USD
 * - `books`: postings whose books do not fit their kind
 * - `charge_without_decision`: for one point in time, more charges than charged decisions in the history
 * - `decision_without_charge`: for one point in time, more charged decisions than charges
 * - `grant_without_record`: postings of grants without a recorded grant of the same amount
 */
export const differenceKinds = [
  "balance",
  "books",
  "charge_without_decision",
  "decision_without_charge",
  "grant_without_record",
] as const;

/** A difference of one account. The values are micro-USD for `balance`, and counts for every other kind. */
export type LedgerDifference = {
  account_id: string;
  kind: (typeof differenceKinds)[number];
  expected: number;
  found: number;
};

/** Totals and mismatches of one account, or of a part of its history. Amounts are in micro-USD. */
export type LedgerCount = {
  account_id: string;
  postings: number;
  /** Number of postings whose books do not fit their kind. */
  strays: number;
  /** The sum of the postings in the book `credit`. */
  credit: number;
  balance: number;
  lone_charges: number;
  lone_decisions: number;
  lone_grants: number;
};

/** Returns the count of an account that has no postings, decisions or balance. */
export function nothingOf(account_id: string): LedgerCount {
  const lone = { lone_charges: 0, lone_decisions: 0, lone_grants: 0 };
  return { account_id, postings: 0, strays: 0, credit: 0, balance: 0, ...lone };
}

/** Returns the differences in an account's count. */
export function differencesOf(count: LedgerCount): LedgerDifference[] {
  const { account_id } = count;
  const compared: [LedgerDifference["kind"], number, number][] = [
    ["balance", count.credit, count.balance],
    ["books", 0, count.strays],
    ["charge_without_decision", 0, count.lone_charges],
    ["decision_without_charge", 0, count.lone_decisions],
    ["grant_without_record", 0, count.lone_grants],
  ];
  return compared
    .filter(([, expected, found]) => expected !== found)
    .map(([kind, expected, found]) => ({ account_id, kind, expected, found }));
}

/** SQL for the time at which the stored history begins. */
const BEGIN = `(select coalesce(max(ends_at), '-infinity') from history_archives where dropped_at is not null)`;

/*
 * - `posted`: the sum of an account's postings. Each recorded grant refers to its posting, so only postings
 *   without a recorded grant are searched.
 * - `moments`: a charge is posted at the time of its decision, so charges and decisions are counted for each
 *   time. An invented charge cannot hide behind a missing one. Months that were dropped from the history have
 *   charges but no decisions, so they are left out.
 */
const compared = (accounts: string, time: (column: string) => string) => `
with posted as (
  select account_id, count(*) as postings,
         sum(case 'credit' when credit_book then amount_micro_usd when debit_book then -amount_micro_usd else 0 end) as credit,
         count(*) filter (where (kind, debit_book, credit_book) not in
           (('alpha_credit', 'grants', 'credit'), ('grant', 'grants', 'credit'),
            ('verification', 'credit', 'revenue'), ('verification', 'receivable', 'revenue'))) as strays,
         count(*) filter (where kind = 'grant' and not exists (
           select from credit_grants g where g.account_id = p.account_id and g.posted_at = p.posted_at
             and g.posting_id = p.posting_id and g.amount_micro_usd = p.amount_micro_usd)) as lone_grants
  from ledger_postings p where ${accounts} and ${time("posted_at")} group by account_id
), moments as (
  select account_id, sum(charges) as charges, sum(decisions) as decisions,
         sum(least(charges, decisions)) as matched
  from (
    select account_id, at, sum(charge) as charges, sum(decision) as decisions
    from (
      select account_id, posted_at as at, 1 as charge, 0 as decision from ledger_postings
      where kind = 'verification' and ${accounts} and ${time("posted_at")} and posted_at >= ${BEGIN}
      union all
      select account_id, occurred_at, 0, 1 from audit_events
      where decision in ('allow', 'deny') and verifier_account_id is null and ${accounts} and ${time("occurred_at")}
        and occurred_at >= ${BEGIN}
    ) as events group by account_id, at
  ) as counted group by account_id
), compared as materialized (
  select account_id, coalesce(postings, 0)::bigint as postings, coalesce(strays, 0)::bigint as strays,
         coalesce(credit, 0)::bigint as credit, coalesce(balance_micro_usd, 0)::bigint as balance,
         coalesce(charges - matched, 0)::bigint as lone_charges,
         coalesce(decisions - matched, 0)::bigint as lone_decisions, coalesce(lone_grants, 0)::bigint as lone_grants
  from (select * from account_credit where ${accounts}) as balances
  full join posted using (account_id)
  full join moments using (account_id)
)`;

const PAGE = `${compared("account_id >= :first and (:end::uuid is null or account_id < :end)", () => "true")}, total as (
  select count(*) as total_accounts, coalesce(sum(postings), 0)::bigint as total_postings from compared
)
select total.*, compared.* from total
left join compared on credit <> balance or strays + lone_charges + lone_decisions + lone_grants > 0
order by account_id`;

const SLICE = `${compared("account_id = :account", (column) => `${column} > :after and ${column} <= :until`)}
select * from compared`;

/** Numbers of accounts and postings on a page, and the counts of the accounts with differences. */
type PageCount = { accounts: number; postings: number; differing: LedgerCount[] };

type PageRow = { total_accounts: number; total_postings: number } & (LedgerCount | { account_id: null });

/**
 * Counts the accounts from `first` up to, but not including, `end` at one point in time. If `end` is null,
 * counts all accounts from `first`.
 */
export async function countPage(
  database: Database,
  page: { first: string; end: string | null },
): Promise<PageCount> {
  const rows = await read<PageRow>(database, PAGE, page);
  const { total_accounts: accounts = 0, total_postings: postings = 0 } = rows[0] ?? {};
  return { accounts, postings, differing: rows.filter((row) => row.account_id !== null) };
}

/**
 * History after the time `after`, up to and including `until`. Both times are text for Postgres.
 */
type Slice = { account: string; after: string; until: string };

/** Counts an account's postings and decisions in one slice of its history. The balance is the current one. */
export async function countSlice(database: Database, slice: Slice): Promise<LedgerCount> {
  const [row] = await read<LedgerCount>(database, SLICE, slice);
  return row ?? nothingOf(slice.account);
}

/** Runs one statement in its own transaction, with more memory for sorting. */
function read<Row>(database: Database, sql: string, values: Record<string, string | null>): Promise<Row[]> {
  return database.transaction(
    async (tx) => {
      await tx.raw("set local work_mem = '64MB'");
      return (await tx.raw<{ rows: Row[] }>(sql, values)).rows;
    },
    { readOnly: true },
  );
}
