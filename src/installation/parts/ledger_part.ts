import { readReconciliation } from "../../accounts/ledger/reconcile.ts";
import { addSeconds } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { figureOf } from "../measured.ts";
import { figure, type Part } from "../part.ts";

/** Seconds after which a reconciliation, which every worker makes each hour, is missed. */
const OLD_SECONDS = 3 * 60 * 60;

/** What the last reconciliation of a worker found. It is never made here: it reads all of the ledger. */
export function ledgerPart({ database }: { database: Database }): Part {
  return {
    name: "ledger",
    async read(now) {
      const last = await readReconciliation(database);
      const isOld = last === undefined || now > addSeconds(last.at, OLD_SECONDS);
      const made = figure({
        name: "ledger_reconciled",
        value: last?.at.toISOString() ?? null,
        unit: "time",
        at: now,
        state: isOld ? "look" : "well",
      });
      if (last === undefined) return [made];
      const { at, content } = last;
      return [
        made,
        ...Object.entries(content.differences).map(([kind, value]) =>
          figureOf("deputize_ledger_differences", { value, labels: { kind } }, at),
        ),
        figureOf("deputize_ledger_accounts", { value: content.accounts }, at),
        figure({ name: "ledger_postings", value: content.postings, at }),
      ];
    },
  };
}
