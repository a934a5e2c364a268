import type { Pool } from "pg";
import { sweepAccounts } from "./accounts/sweep.ts";
import type { Clock } from "./clock.ts";
import { startLoop } from "./concurrency/loop.ts";
import type { Database } from "./db/database.ts";
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
  clock: Clock;
  idempotency: Pick<Idempotency, "sweep" | "forgetSecrets">;
  /** Days for which a decided invocation is stored. */
  invocationDays: number;
  /** Whole months for which the history is kept. If `undefined`, it is kept permanently. */
  retentionMonths: number | undefined;
  domains: Pick<VerifyDomainDeps, "lookupTxt" | "word">;
  log: Logger;
};

/**
 * Maintains the API's tables, first immediately and then every half hour, in every replica. Urgent deletions
 * run every minute. Resolves when the partitions for new decisions exist.
 */
export async function startUpkeep(deps: UpkeepDeps): Promise<{ stop(): Promise<void> }> {
  const { db, pool, months, clock, idempotency, invocationDays: keptDays, domains, log } = deps;
  const { retentionMonths } = deps;
  const stopping = new AbortController();
  await maintainPartitions(pool, clock.now());
  const loop = startLoop({
    name: "upkeep",
    log,
    shortestPause: PAUSE_MS,
    longestPause: PAUSE_MS,
    async step() {
      await maintainPartitions(pool, clock.now());
      await mendDefaultPartitions({ pool: months, now: clock.now(), log });
      await sweepAccounts({ db, clock });
      await sweepInvitations({ db, clock });
      await idempotency.sweep();
      await pruneInvocations({ db, now: clock.now(), keptDays, signal: stopping.signal });
      await dropOldMonths({ pool: months, now: clock.now(), retentionMonths, log });
      await recheckDomains({ ...domains, db, clock, log, signal: stopping.signal });
      return false;
    },
  });
  const soon = startLoop({
    name: "upkeep_soon",
    log,
    shortestPause: SOON_PAUSE_MS,
    longestPause: SOON_PAUSE_MS,
    async step() {
      await idempotency.forgetSecrets();
      await prunePresented({ db, now: clock.now(), signal: stopping.signal });
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
