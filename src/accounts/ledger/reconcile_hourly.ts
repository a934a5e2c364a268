import { Gauge } from "prom-client";
import type { Database } from "../../db/database.ts";
import type { Logger } from "../../log.ts";
import type { Metrics } from "../../metrics.ts";
import { differenceKinds } from "./ledger_difference.ts";
import { reconcileLedger } from "./reconcile.ts";

const MOST_LOGGED = 100;

/**
 * A reconciliation for a process that stays up: differences go to the log, the first 100 by account, and
 * their number by kind to the metric `deputize_ledger_differences`; `deputize_ledger_accounts` counts the
 * accounts that were looked at.
 */
export function createReconciliation({
  database,
  log,
  metrics,
}: {
  database: Database;
  log: Logger;
  metrics?: Pick<Metrics, "registry"> | undefined;
}): () => Promise<void> {
  const measure = metrics && createLedgerMetrics(metrics);
  return async () => {
    const { accounts, differences } = await reconcileLedger(database);
    measure?.(accounts, (kind) => differences.filter((difference) => difference.kind === kind).length);
    for (const difference of differences.slice(0, MOST_LOGGED)) {
      log.error(difference, "the ledger does not agree");
    }
    if (differences.length > MOST_LOGGED) {
      log.error({ differences: differences.length }, "the ledger does not agree in more places");
    }
  };
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
  return (accounts: number, count: (kind: (typeof differenceKinds)[number]) => number) => {
    seen.set(accounts);
    for (const kind of differenceKinds) different.set({ kind }, count(kind));
  };
}
