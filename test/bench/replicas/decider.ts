import { createCreditSources } from "../../../src/accounts/ledger/credit_source.ts";
import { openPool } from "../../../src/db/database.ts";
import { createBatcher, QUICK_LOCK_MS, separateSlowAccounts } from "../../../src/proofs/admission/batch.ts";
import type { Records } from "../../proofs/records.ts";
import { shown } from "../decision_items.ts";

/**
 * A part of the load: decisions of these accounts in turn, `inFlight` at a time, for `ms` milliseconds. With
 * `onlyBalance`, every decision charges the account's balance row.
 */
export type Work = { url: string; accounts: Records[]; inFlight: number; ms: number; onlyBalance: boolean };
/** How many decisions were made, how many failed, and how long each took, in milliseconds. */
export type Done = { decided: number; failed: number; waits: number[] };

process.on("message", async (work: Work) => process.send?.(await decideAll(work)));

async function decideAll({ url, accounts, inFlight, ms, onlyBalance }: Work): Promise<Done> {
  const common = { url, onError: () => {} };
  const decisions = openPool({ ...common, name: "decisions", max: 4, lockMs: QUICK_LOCK_MS });
  const patient = openPool({ ...common, name: "patient", max: 2, lockMs: 2_000 });
  const sources = createCreditSources();
  if (onlyBalance) sources.onAmple = () => {};
  const decide = separateSlowAccounts(createBatcher({ pool: decisions, sources }), {
    pool: patient,
    sources,
  });
  const done: Done = { decided: 0, failed: 0, waits: [] };
  let next = 0;
  const end = performance.now() + ms;
  const caller = async () => {
    while (performance.now() < end) {
      const records = accounts[next++ % accounts.length] as Records;
      const since = performance.now();
      const outcome = await decide(shown(records, records)).catch(() => undefined);
      if (outcome?.kind === "decided") done.decided += 1;
      else done.failed += 1;
      done.waits.push(performance.now() - since);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, caller));
  await Promise.all([decisions.end(), patient.end()]);
  return done;
}
