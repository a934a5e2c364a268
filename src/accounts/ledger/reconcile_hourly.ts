import { Gauge } from "prom-client";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { readReport, writeReport } from "../../db/reports.ts";
import type { Logger } from "../../log.ts";
import type { Metrics } from "../../metrics.ts";
import { differenceKinds, type LedgerDifference } from "./ledger_difference.ts";
import { reconcileLedger } from "./reconcile.ts";

const MOST_LOGGED = 100;
const SUBJECT = "ledger";

/** What the last reconciliation found: how many differences of each kind, in how much. */
type LedgerReport = { accounts: number; postings: number; differences: Record<DifferenceKind, number> };
type DifferenceKind = (typeof differenceKinds)[number];

/** The last reconciliation of any worker; undefined before the first one. */
export const readReconciliation = (database: Database) => readReport<LedgerReport>(database, SUBJECT);

/**
 * A reconciliation for a process that stays up: differences go to the log, the first 100 by account, and
 * their number by kind to the metric `deputize_ledger_differences`; `deputize_ledger_accounts` counts the
 * accounts that were looked at. The same figures are kept in the database for who cannot read that much.
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
    help: "Accounts that the last reconciliation of the ledger looked at",
    registers,
  });
  return ({ accounts, differences }: LedgerReport) => {
    seen.set(accounts);
    for (const kind of differenceKinds) different.set({ kind }, differences[kind]);
  };
}
