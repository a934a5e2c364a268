import { addSeconds } from "../../clock.ts";
import type { Database } from "../../db/database.ts";

const SECONDS_A_DAY = 86_400;
const BATCH = 1_000;

type PruneDeps = { db: Database; now: Date; keptDays: number; signal?: AbortSignal; batch?: number };

/**
 * Forgets invocations decided more than `keptDays` days ago, at least one: by then the challenges of their
 * proofs are over, so that no proof that was decided on can be decided on again. Receipts, outcomes, history
 * and charges stay. In small statements that wait for nobody, from several processes concurrently if need be,
 * until all is done or `signal` is aborted. Gives how many went.
 */
export async function pruneInvocations({
  db,
  now,
  keptDays,
  signal,
  batch = BATCH,
}: PruneDeps): Promise<number> {
  const end = addSeconds(now, -keptDays * SECONDS_A_DAY);
  // Rows that an earlier statement deleted are still at the head of the index: each begins where the last one
  // ended.
  let from: Date | "-infinity" = "-infinity";
  let pruned = 0;
  while (signal?.aborted !== true) {
    const { rows }: { rows: { decided_at: Date }[] } = await db.raw(
      `delete from invocations where (account_id, connection_id, invocation_id) in
         (select account_id, connection_id, invocation_id from invocations
          where decided_at >= :from and decided_at < :end order by decided_at limit :batch for update skip locked)
       returning decided_at`,
      { from, end, batch },
    );
    pruned += rows.length;
    if (rows.length < batch) break;
    from = new Date(Math.max(...rows.map(({ decided_at }) => decided_at.getTime())));
  }
  return pruned;
}
