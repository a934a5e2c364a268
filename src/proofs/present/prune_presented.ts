import { addSeconds } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { CHALLENGE_WINDOW_SECONDS } from "../../protocol/encoding/constants.ts";

const BATCH = 1_000;

/**
 * Forgets proofs that were presented longer ago than a challenge lives: nothing can be decided on them any
 * more, and what was decided has a row of its own. Rows that the audit topic does not have yet stay. In small
 * statements that wait for nobody, from several processes concurrently if need be, until all is done or
 * `signal` is aborted. Gives how many went.
 */
export async function prunePresented({
  db,
  now,
  signal,
  batch = BATCH,
}: {
  db: Database;
  now: Date;
  signal?: AbortSignal;
  batch?: number;
}): Promise<number> {
  const end = addSeconds(now, -CHALLENGE_WINDOW_SECONDS);
  // Rows that an earlier statement deleted are still at the head of the index: each begins where the last one
  // ended.
  let from: Date | "-infinity" = "-infinity";
  let pruned = 0;
  while (signal?.aborted !== true) {
    const { rows }: { rows: { occurred_at: Date }[] } = await db.raw(
      `delete from audit_events where (account_id, occurred_at, event_id) in
         (select account_id, occurred_at, event_id from audit_events
          where event_type = 'proof.presented' and occurred_at >= :from and occurred_at < :end
            and not exists (select from history_queue q where q.account_id = audit_events.account_id
                              and q.occurred_at = audit_events.occurred_at and q.event_id = audit_events.event_id)
          order by occurred_at limit :batch for update skip locked)
       returning occurred_at`,
      { from, end, batch },
    );
    pruned += rows.length;
    if (rows.length < batch) break;
    from = new Date(Math.max(...rows.map(({ occurred_at }) => occurred_at.getTime())));
  }
  return pruned;
}
