import { addSeconds } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { CHALLENGE_WINDOW_SECONDS } from "../protocol/encoding/constants.ts";

const SECONDS_A_DAY = 86_400;
const BATCH = 1_000;

/** `batch`: maximum number of rows that one statement deletes. */
type PruneDeps = { db: Database; now: Date; signal?: AbortSignal; batch?: number };

/**
 * Deletes invocations decided more than `keptDays` (at least 1) days ago. By then the challenges of their
 * proofs have expired, so no proof can be decided on twice. Returns the number of deleted invocations.
 */
export function pruneInvocations({ keptDays, ...deps }: PruneDeps & { keptDays: number }): Promise<number> {
  const end = addSeconds(deps.now, -keptDays * SECONDS_A_DAY);
  return pruneUntil(
    end,
    deps,
    `delete from invocations where (account_id, connection_id, invocation_id) in
       (select account_id, connection_id, invocation_id from invocations
        where decided_at >= :from and decided_at < :end order by decided_at limit :batch for update skip locked)
     returning decided_at as at`,
  );
}

/**
 * Deletes the history rows of presented proofs whose challenge has expired, except rows that the audit topic
 * does not contain yet. Returns the number of deleted rows.
 */
export function prunePresented(deps: PruneDeps): Promise<number> {
  const end = addSeconds(deps.now, -CHALLENGE_WINDOW_SECONDS);
  return pruneUntil(
    end,
    deps,
    `delete from audit_events where (account_id, occurred_at, event_id) in
       (select account_id, occurred_at, event_id from audit_events
        where event_type = 'proof.presented' and occurred_at >= :from and occurred_at < :end
          and not exists (select from history_queue q where q.account_id = audit_events.account_id
                            and q.occurred_at = audit_events.occurred_at and q.event_id = audit_events.event_id)
        order by occurred_at limit :batch for update skip locked)
     returning occurred_at as at`,
  );
}

/** Deletes rows in small statements that wait for no lock, so several processes may delete concurrently. */
async function pruneUntil(
  end: Date,
  { db, signal, batch = BATCH }: PruneDeps,
  statement: string,
): Promise<number> {
  // The start of the index still contains rows that an earlier statement deleted. So each statement begins
  // where the previous statement ended.
  let from: Date | "-infinity" = "-infinity";
  let pruned = 0;
  while (signal?.aborted !== true) {
    const { rows }: { rows: { at: Date }[] } = await db.raw(statement, { from, end, batch });
    pruned += rows.length;
    if (rows.length < batch) break;
    from = new Date(Math.max(...rows.map(({ at }) => at.getTime())));
  }
  return pruned;
}
