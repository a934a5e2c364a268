import type { Pool } from "pg";
import { sweepAccounts } from "./accounts/sweep.ts";
import type { Clock, ComparedClock } from "./clock.ts";
import { startLoop } from "./concurrency/loop.ts";
import type { Database } from "./db/database.ts";
import { deleteUndecided } from "./delegations/requests/delete_undecided.ts";
import { dropOldMonths } from "./history/archive/drop_months.ts";
import type { Idempotency } from "./http/idempotency.ts";
import type { Logger } from "./log.ts";
import { sweepInvitations } from "./organizations/invite.ts";
import { recheckDomains, type VerifyDomainDeps } from "./organizations/verify_domain.ts";
import { mendDefaultPartitions } from "./proofs/decide/default_rows.ts";
import { maintainPartitions } from "./proofs/decide/partitions.ts";
import { pruneInvocations, prunePresented } from "./proofs/prune.ts";

const PAUSE_MS = 30 * 60 * 1000;
const SOON_PAUSE_MS = 60 * 1000;

type UpkeepDeps = {
  db: Database;
  /** A pool for creating partitions. Its statements have a lock timeout. */
  pool: Pool;
  /** A pool for work on whole months. Its statements may take long. */
  months: Pool;
  clock: ComparedClock;
  idempotency: Pick<Idempotency, "sweep" | "forgetSecrets">;
  /** Days for which a decided invocation is stored. */
  invocationDays: number;
  /** Days for which a request that nobody decided is stored after it expired. */
  undecidedDays: number;
  /** Whole months for which the history is kept. If `undefined`, it is kept permanently. */
  retentionMonths: number | undefined;
  domains: Pick<VerifyDomainDeps, "lookupTxt" | "word">;
  log: Logger;
};

/**
 * Maintains the API's tables, first immediately and then every half hour, in every replica. Urgent deletions
 * run every minute. Only partitions are created while the clock disagrees: nothing is deleted or ended then.
 * Resolves when the partitions for new decisions exist.
 */
export async function startUpkeep(deps: UpkeepDeps): Promise<{ stop(): Promise<void> }> {
  const { db, pool, months, clock, idempotency, invocationDays: keptDays, domains, log } = deps;
  const { retentionMonths, undecidedDays } = deps;
  const stopping = new AbortController();
  await maintainPartitions(pool, clock.now(), clock.agreed());
  const loop = startLoop({
    name: "upkeep",
    log,
    shortestPause: PAUSE_MS,
    longestPause: PAUSE_MS,
    async step() {
      await maintainPartitions(pool, clock.now(), clock.agreed());
      await whileAgreed(clock, [
        (now) => mendDefaultPartitions({ pool: months, now, log }),
        (now) => sweepAccounts({ db, clock: stoppedAt(now) }),
        (now) => sweepInvitations({ db, clock: stoppedAt(now) }),
        (now) => idempotency.sweep(now),
        (now) => pruneInvocations({ db, now, keptDays, signal: stopping.signal }),
        (now) => deleteUndecided({ db, now, keptDays: undecidedDays, signal: stopping.signal }),
        (now) => dropOldMonths({ pool: months, now, retentionMonths, log }),
        (now) => recheckDomains({ ...domains, db, clock: stoppedAt(now), log, signal: stopping.signal }),
      ]);
      return false;
    },
  });
  const soon = startLoop({
    name: "upkeep_soon",
    log,
    shortestPause: SOON_PAUSE_MS,
    longestPause: SOON_PAUSE_MS,
    async step() {
      await whileAgreed(clock, [
        (now) => idempotency.forgetSecrets(now),
        (now) => prunePresented({ db, now, signal: stopping.signal }),
      ]);
      return false;
    },
  });
  return {
    async stop() {
      stopping.abort();
      await Promise.all([loop.stop(), soon.stop()]);
    },
  };
}

/**
 * Runs each work with a time on which the clocks agree. Ends as soon as they disagree: the database's clock
 * may be the wrong one, and what is deleted cannot be restored.
 */
async function whileAgreed(clock: ComparedClock, works: ((now: Date) => Promise<unknown>)[]): Promise<void> {
  for (const work of works) {
    const now = clock.agreed();
    if (now === undefined) return;
    await work(now);
  }
}

function stoppedAt(time: Date): Clock {
  return { now: () => time };
}
