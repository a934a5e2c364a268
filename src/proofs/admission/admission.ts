/**
 * Admission: the seven guards that a call passes before its decision is committed.
 *
 * Verification is free until it commits, and one process serves every account. The guards stop one caller
 * from using the processing time of the other callers. Each guard bounds one resource. A guard refuses a call
 * by throwing an `ApiError`. Guard 6 throws the database's lock error, which becomes an `ApiError` later. A
 * refused call decides, charges and spends nothing, so the caller can send the same proof again.
 *
 *       call with an API key
 *              |
 *     1  key rate ............ too many presents from one connection ......... 429 rate_limited
 *              |               rates/api_key_rates.ts
 *     2  fair queue .......... no slot free for a second ..................... 503 unavailable
 *              |               fair_queue.ts
 *        read the call                                 verify/call.ts
 *              |
 *     3  repeats ............. too many operations that were decided before .. 429 rate_limited
 *              |               repeats.ts             (proofs bound to an operation only)
 *     4  refused proofs ...... too many proofs of one connection refused ..... 429 rate_limited
 *              |               refused_proofs.ts
 *        challenge, root, signatures, rules            verify/verify_proof.ts
 *              |
 *     5  certificate rate .... too many calls wait for one certificate ....... 429 rate_limited
 *              |               certificate_rate.ts    (certificates with `max_rate` only)
 *     6  slow accounts ....... a row stays locked for two seconds ............ 503 unavailable
 *              |               batch.ts
 *     7  batch ............... no statement had room within 5 seconds ........ 503 unavailable
 *              |               batch.ts
 *        one statement that spends, charges and records      decide/decide_and_charge.ts
 *
 * The order has reasons:
 *
 * - The cheap guards come first. Guards 1 to 4 do no signature work, except that guard 4 checks one signature
 *   when forged proofs name an agent that was allowed before.
 * - Guard 1 counts present calls, because each costs the vault a signature. It does not count verify calls:
 *   their decisions are charged, and guards 3 and 4 bound the calls that are not charged.
 * - A call keeps its slot in the queue (guard 2) while it runs. It frees the slot through `stepAside` before
 *   it waits for something that other calls hold: a certificate (5) or a locked row (6).
 * - Guard 5 runs inside the rules, when a constraint first asks how often a certificate was used. It gives
 *   the call exclusive access to the certificate. The call decides in the transaction that counted the uses,
 *   and skips guards 6 and 7.
 * - Guard 6 wraps guard 7. A batch that finds a row locked gives up after 50 ms. The accounts that need the
 *   row then wait apart, each in batches of its own, and do not delay the other accounts in the batch.
 *
 * Guards 1 to 7 count in the memory of one process, except the daily agent limit next to guard 1.
 */
import type { Pool } from "pg";
import { Counter, Gauge } from "prom-client";
import { createCreditSources } from "../../accounts/ledger/credit_source.ts";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import type { Metrics } from "../../metrics.ts";
import { createBatcher, separateSlowAccounts } from "./batch.ts";
import { type CountingDeps, createAcceptanceFinder, createCertificateLocks } from "./certificate_rate.ts";
import { createFairQueue, type FairQueue, type FairQueueBounds, type QueueRefusal } from "./fair_queue.ts";
import { createRefusals, type Refusals } from "./refused_proofs.ts";
import { createRecordedFinder, createRepeats, type FindRecorded, type Repeats } from "./repeats.ts";

/** Bounds of the decision queue. The 64 slots are one batch. More slots did not increase throughput. */
const BOUNDS: FairQueueBounds = {
  places: 64,
  share: { least: 4, most: 8 },
  waitMs: 1_000,
  most: 4_096,
  longMs: 500,
};

const REFUSALS: readonly QueueRefusal[] = ["late", "full"];

/** Creates the queue for decisions in this process, and registers the queue's metrics. */
export function createDecisionQueue({ registry }: Pick<Metrics, "registry">): FairQueue {
  const registers = [registry];
  const refused = new Counter({
    name: "deputize_decisions_refused_total",
    help: "Calls for a decision that were refused: they waited for too long (late), or too many waited (full)",
    labelNames: ["cause"],
    registers,
  });
  for (const cause of REFUSALS) refused.inc({ cause }, 0);
  const queue = createFairQueue(BOUNDS, (cause) => refused.inc({ cause }));
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  gauge("deputize_decisions_running", "Decisions that this process works on", () => queue.running);
  gauge("deputize_decisions_waiting", "Calls for a decision that wait to be worked on", () => queue.waiting);
  return queue;
}

/** Guards 3 to 7, as the verify path uses them. */
export type Guards = CountingDeps & { repeats: Repeats; refusals: Refusals; findRecorded: FindRecorded };

/**
 * Creates guards 3 to 7. `perMinute` bounds the repeats and the refused proofs of one connection. `queue` is
 * guard 2, through which the calls come.
 */
export function createGuards(deps: {
  db: Database;
  decisions: Pool;
  patient: Pool;
  rated: Pool;
  queue: Pick<FairQueue, "running">;
  perMinute: number;
  clock: Clock;
}): Guards {
  const { db, decisions, patient, rated, queue, perMinute, clock } = deps;
  const findRecorded = createRecordedFinder(db);
  const sources = createCreditSources();
  const batches = { pool: decisions, sources };
  return {
    findRecorded,
    repeats: createRepeats({ perMinute, clock, findRecorded }),
    refusals: createRefusals({ perMinute, clock }),
    lockCertificates: createCertificateLocks(rated, batches),
    isAccepted: createAcceptanceFinder(db),
    decide: separateSlowAccounts(
      createBatcher(batches, undefined, () => queue.running),
      { pool: patient, sources },
    ),
  };
}
