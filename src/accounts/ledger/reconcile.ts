import { Gauge } from "prom-client";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { readReport, writeReport } from "../../db/reports.ts";
import type { Logger } from "../../log.ts";
import type { Metrics } from "../../metrics.ts";
import {
  countPage,
  countSlice,
  differenceKinds,
  differencesOf,
  type LedgerCount,
  type LedgerDifference,
  nothingOf,
} from "./compare_balances.ts";

/** A time of this age is closed: nothing is posted or recorded for it any more, unless a clock is wrong. */
const CLOSED_AFTER = "5 minutes";

const leastOf = (select: (table: string) => string): string =>
  `least(${["balances", "ledger_postings", "audit_events"].map(select).join(", ")})`;

const accountAt = (place: string) =>
  leastOf(
    (table) =>
      `(select account_id from ${table} where account_id >= :from order by account_id ${place} limit 1)`,
  );

/**
 * Returns the first account at or after `from`, and the end of the page that starts with it. The accounts
 * from `first` up to, but not including, `end` have at most `rows` rows in each table. `end` is null if all
 * remaining accounts fit.
 */
export async function accountBounds(
  database: Database,
  bounds: { from: string; rows: number },
): Promise<{ first: string | null; end: string | null }> {
  const sql = `select ${accountAt("")} as first, ${accountAt("offset :rows")} as end`;
  const { rows } = await database.raw(sql, bounds);
  return rows[0];
}

/** Returns the next account after this account, or null if there is none. */
export async function accountAfter(database: Database, account: string): Promise<string | null> {
  const next = leastOf(
    (table) => `(select account_id from ${table} where account_id > :account order by account_id limit 1)`,
  );
  const { rows } = await database.raw(`select ${next} as next`, { account });
  return rows[0].next;
}

/**
 * Returns a time more than 5 minutes ago up to which the account has about `rows` postings or events after
 * `after`. Returns `infinity` if fewer remain, or if they are newer.
 */
export async function sliceEnd(
  database: Database,
  slice: { account: string; after: string; rows: number },
): Promise<string> {
  const momentAt = (table: string, column: string) =>
    `(select ${column} from ${table} where account_id = :account and ${column} > :after
      order by ${column} offset :rows limit 1)`;
  const { rows } = await database.raw(
    `select case when until < now() - interval '${CLOSED_AFTER}' then until::text else 'infinity' end as until
     from (select least(${momentAt("ledger_postings", "posted_at")},
                        ${momentAt("audit_events", "occurred_at")}) as until) as slice`,
    { ...slice, rows: slice.rows - 1 },
  );
  return rows[0].until;
}

/** The result of a reconciliation: the numbers of compared accounts and postings, and the differences. */
export type Reconciliation = { accounts: number; postings: number; differences: LedgerDifference[] };

/** Approximate number of rows that one statement reads from each table. */
const PAGE_ROWS = 100_000;
const FIRST_ACCOUNT = "00000000-0000-0000-0000-000000000000";
const FIRST_MOMENT = "-infinity";
const LAST_MOMENT = "infinity";

/**
 * Compares every account's balance with its postings, its charges with the charged decisions of its history,
 * and its grants with the recorded grants. Changes nothing and does not block decisions.
 *
 * Reads page by page, each page at one point in time, so that no statement keeps a snapshot for long. An
 * account with more than `pageRows` rows is compared in slices. If the slices differ, the account is compared
 * again at one point in time before a difference is reported.
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

/** Each slice reads the current balance, so the latest slice's balance counts. */
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

const MOST_LOGGED = 100;
const SUBJECT = "ledger";

type LedgerReport = { accounts: number; postings: number; differences: Record<DifferenceKind, number> };
type DifferenceKind = (typeof differenceKinds)[number];

/** Returns the last reconciliation by any worker, or `undefined` before the first reconciliation. */
export const readReconciliation = (database: Database) => readReport<LedgerReport>(database, SUBJECT);

/**
 * Creates a reconciliation for a long-running process. It logs the first 100 differences, sets the metrics of
 * the ledger, and stores the result for {@link readReconciliation}.
 */
export function createReconciliation({
  database,
  clock,
  log,
  metrics,
}: {
  database: Database;
  clock: Clock;
  log: Logger;
  metrics?: Pick<Metrics, "registry"> | undefined;
}): () => Promise<void> {
  const measure = metrics && createLedgerMetrics(metrics);
  return async () => {
    const { accounts, postings, differences } = await reconcileLedger(database);
    const report = { accounts, postings, differences: countKinds(differences) };
    measure?.(report);
    for (const difference of differences.slice(0, MOST_LOGGED)) {
      log.error(difference, "the ledger does not agree");
    }
    if (differences.length > MOST_LOGGED) {
      log.error({ differences: differences.length }, "the ledger does not agree in more places");
    }
    await writeReport(database, SUBJECT, { at: clock.now(), content: report });
  };
}

function countKinds(differences: readonly LedgerDifference[]): LedgerReport["differences"] {
  const count = (kind: DifferenceKind) => differences.filter((each) => each.kind === kind).length;
  return Object.fromEntries(
    differenceKinds.map((kind) => [kind, count(kind)]),
  ) as LedgerReport["differences"];
}

function createLedgerMetrics({ registry }: Pick<Metrics, "registry">) {
  const registers = [registry];
  const different = new Gauge({
    name: "deputize_ledger_differences",
    help: "Differences that the last reconciliation of the ledger found",
    labelNames: ["kind"],
    registers,
  });
  const seen = new Gauge({
    name: "deputize_ledger_accounts",
    help: "Accounts that the last reconciliation of the ledger compared",
    registers,
  });
  return ({ accounts, differences }: LedgerReport) => {
    seen.set(accounts);
    for (const kind of differenceKinds) different.set({ kind }, differences[kind]);
  };
}
