import type { Pool } from "pg";
import { createCreditSources } from "../../../src/accounts/ledger/credit_source.ts";
import { openPool } from "../../../src/db/database.ts";
import {
  createBatcher,
  type Decide,
  QUICK_LOCK_MS,
  separateSlowAccounts,
} from "../../../src/proofs/admission/batch.ts";
import type { Records } from "../../proofs/records.ts";
import { shown } from "../decision_items.ts";
import { BARE_ROWS } from "./bare_rows.ts";

/** The work of each call. `one row each`: the decision charges its account's balance, never a slice. */
export type Mode = "decision" | "one row each" | "bare rows";
/** A part of the load: decisions of these accounts in turn, `inFlight` at a time, for `ms` milliseconds. */
export type Work = { url: string; accounts: Records[]; inFlight: number; ms: number; mode: Mode };
/** How many decisions were made, how many failed, and how long each took, in milliseconds. */
export type Done = { decided: number; failed: number; waits: number[] };

/** Like an API process, a decider keeps its connections and their prepared statements. */
const deciders = new Map<Mode, Decide>();

process.on("message", async (work: Work) => process.send?.(await decideAll(work)));
process.on("disconnect", () => process.exit());

async function decideAll({ url, accounts, inFlight, ms, mode }: Work): Promise<Done> {
  const decide = deciders.get(mode) ?? openDecider(url, mode);
  deciders.set(mode, decide);
  const isDone = mode === "bare rows" ? "challenge_spent" : "decided";
  const done: Done = { decided: 0, failed: 0, waits: [] };
  let next = 0;
  const end = performance.now() + ms;
  const caller = async () => {
    while (performance.now() < end) {
      const records = accounts[next++ % accounts.length] as Records;
      const since = performance.now();
      const outcome = await decide(shown(records, records)).catch(() => undefined);
      if (outcome?.kind === isDone) done.decided += 1;
      else done.failed += 1;
      done.waits.push(performance.now() - since);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, caller));
  return done;
}

function openDecider(url: string, mode: Mode): Decide {
  const open = (name: string, max: number, lockMs: number) => {
    const pool = openPool({ url, onError: () => {}, name, max, lockMs });
    pool.options.idleTimeoutMillis = 0;
    return pool;
  };
  const sources = createCreditSources();
  if (mode === "one row each") sources.onAmple = () => {};
  const decisions = open("decisions", 4, QUICK_LOCK_MS);
  const batches = createBatcher({ pool: mode === "bare rows" ? storing(decisions) : decisions, sources });
  return separateSlowAccounts(batches, { pool: open("patient", 2, 2_000), sources });
}

/** Returns a pool that stores the rows of a batch. It returns no decision, so each challenge seems spent. */
function storing(pool: Pool): Pool {
  const query = async ({ values }: { values: unknown[] }) => {
    await pool.query({ ...BARE_ROWS, values });
    return { rows: [] };
  };
  return { query } as unknown as Pool;
}
