import { addSeconds } from "../../clock.ts";
import type { Database } from "../../db/database.ts";

const DAY_SECONDS = 86_400;
const BATCH = 1_000;

/** `batch`: maximum number of rows that one statement deletes. */
type DeleteDeps = { db: Database; now: Date; keptDays: number; signal?: AbortSignal; batch?: number };

/** The requests that can be deleted: those of people, and those of deleted objects. */
const DELETABLE = ["external_id is null", "request_id in (select request_id from gone_requests)"];

/**
 * Deletes requests that nobody approved or denied, `keptDays` days after they expired or would have expired.
 * Keeps the requests of existing Kubernetes objects: the operator asks about them, and without an answer it
 * cannot exclude that their authority is in force under another cluster id. Several processes may delete at
 * the same time. Returns the number of deleted requests.
 */
export async function deleteUndecided({
  db,
  now,
  keptDays,
  signal,
  batch = BATCH,
}: DeleteDeps): Promise<number> {
  const end = addSeconds(now, -keptDays * DAY_SECONDS);
  let deleted = 0;
  for (const condition of DELETABLE) {
    let isFull = true;
    while (isFull && signal?.aborted !== true) {
      const { rowCount } = await db.raw<{ rowCount: number }>(
        `delete from delegation_requests where request_id in
           (select request_id from delegation_requests
            where status in ('pending', 'expired', 'withdrawn') and expires_at < :end and ${condition}
            limit :batch for update skip locked)`,
        { end, batch },
      );
      deleted += rowCount;
      isFull = rowCount === batch;
    }
  }
  return deleted;
}
