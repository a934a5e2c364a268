import type { Pool } from "pg";
import { deleteIdle, noteLapses, noteReminders } from "./accounts/mailings/queue.ts";
import { sweepAccounts } from "./accounts/sweep.ts";
import type { Clock, ComparedClock } from "./clock.ts";
import { sweepBindingRequests } from "./clusters/namespace_binding.ts";
import { startLoop } from "./concurrency/loop.ts";
import { pruneConnectCodes } from "./connect/approve_connect.ts";
import { pruneProposals } from "./connect/proposals.ts";
import type { Database } from "./db/database.ts";
import { deleteUndecided } from "./delegations/requests/delete_undecided.ts";
import { dropOldMonths } from "./history/archive/drop_months.ts";
import type { Idempotency } from "./http/idempotency.ts";
import type { Logger } from "./log.ts";
import { sweepInvitations } from "./organizations/invite.ts";
import { sweepSetups } from "./organizations/members.ts";
import { recheckDomains, type VerifyDomainDeps } from "./organizations/verify_domain.ts";
import type { ApiKeyFinder } from "./platforms/api_keys/api_key_finder.ts";
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
  apiKeys: Pick<ApiKeyFinder, "writeUses">;
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
  const { apiKeys, retentionMonths, undecidedDays } = deps;
  const stopping = new AbortController();
  const { signal } = stopping;
  /**
   * Returns a part that runs with a time on which the clocks agree, and not while they disagree: the
   * database's clock may be the wrong one, and what is deleted cannot be restored.
   */
  const whileAgreed = (name: string, run: (now: Date) => Promise<unknown>): Part => [
    name,
    async () => {
      const now = clock.agreed();
      if (now !== undefined) await run(now);
    },
  ];
  await maintainPartitions(pool, clock.now(), clock.agreed());
  const loop = startLoop({
    name: "upkeep",
    log,
    shortestPause: PAUSE_MS,
    longestPause: PAUSE_MS,
    step: steps({ log, loop: "upkeep", pauseMs: PAUSE_MS }, [
      ["partitions", () => maintainPartitions(pool, clock.now(), clock.agreed())],
      whileAgreed("rows without a partition", (now) => mendDefaultPartitions({ pool: months, now, log })),
      whileAgreed("accounts", (now) => sweepAccounts({ db, clock: stoppedAt(now) })),
      whileAgreed("invitations", (now) => sweepInvitations({ db, clock: stoppedAt(now) })),
      ["setups of former members", () => sweepSetups({ db })],
      whileAgreed("namespaces", (now) => sweepBindingRequests({ db, clock: stoppedAt(now) })),
      whileAgreed("stored answers", (now) => idempotency.sweep(now)),
      whileAgreed("invocations", (now) => pruneInvocations({ db, now, keptDays, signal })),
      whileAgreed("undecided requests", (now) =>
        deleteUndecided({ db, now, keptDays: undecidedDays, signal }),
      ),
      whileAgreed("old months", (now) => dropOldMonths({ pool: months, now, retentionMonths, log })),
      whileAgreed("reminders", (now) => noteReminders(db, now)),
      whileAgreed("lapses", (now) => noteLapses(db, now)),
      whileAgreed("pauses between mails", (now) => deleteIdle(db, now)),
      whileAgreed("domains", (now) => recheckDomains({ ...domains, db, clock: stoppedAt(now), log, signal })),
    ]),
  });
  const soon = startLoop({
    name: "upkeep_soon",
    log,
    shortestPause: SOON_PAUSE_MS,
    longestPause: SOON_PAUSE_MS,
    step: steps({ log, loop: "upkeep_soon", pauseMs: SOON_PAUSE_MS }, [
      whileAgreed("secrets in stored answers", (now) => idempotency.forgetSecrets(now)),
      ["uses of API keys", () => apiKeys.writeUses()],
      whileAgreed("codes of customers who connect", (now) => pruneConnectCodes({ db, now })),
      whileAgreed("proposals of products", (now) => pruneProposals({ db, now })),
      whileAgreed("presented proofs", (now) => prunePresented({ db, now, signal })),
    ]),
  });
  return {
    async stop() {
      stopping.abort();
      await Promise.all([loop.stop(), soon.stop()]);
    },
  };
}

/** A named part of the upkeep. */
type Part = [name: string, run: () => Promise<unknown>];

/**
 * Returns a loop's step that runs all parts in order. A part that fails does not stop the others. It is
 * logged once, and the step then rejects, so that the loop soon repeats. Until `pauseMs` have passed, only
 * the parts that failed then run again.
 */
function steps(
  { log, loop, pauseMs }: { log: Logger; loop: string; pauseMs: number },
  parts: Part[],
): () => Promise<boolean> {
  const failing = new Set<string>();
  let nextWhole = 0;
  return async () => {
    const isWhole = failing.size === 0 || performance.now() >= nextWhole;
    if (isWhole) nextWhole = performance.now() + pauseMs;
    for (const [part, run] of parts.filter(([part]) => isWhole || failing.has(part))) {
      try {
        await run();
        failing.delete(part);
      } catch (error) {
        if (!failing.has(part)) log.warn({ loop, part, err: error }, "a part of the upkeep fails");
        failing.add(part);
      }
    }
    if (failing.size > 0) throw new Error(`These parts fail: ${[...failing].join(", ")}`);
    return false;
  };
}

function stoppedAt(time: Date): Clock {
  return { now: () => time };
}
