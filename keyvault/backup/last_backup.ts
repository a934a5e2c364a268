import { unixSeconds } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";

/** A backup that is older than so many records is not looked for. */
const RECORDS = 1_000_000;

/**
 * Has the metric say when the last backup was signed, as far as the audit's rows tell, unless a newer one was
 * made meanwhile. Never rejects: what cannot be read is logged, and the metric says that no backup is known.
 */
export async function measureLastBackup(
  database: Database,
  { lastBackup }: Pick<Metrics, "lastBackup">,
  log: Logger,
): Promise<void> {
  try {
    const { rows } = await database.raw<{ rows: { recorded_at: Date }[] }>(
      `select recorded_at from audit as signed
       where statement = 'backup' and outcome = 'granted' and detail->>'step' = 'signed'
         and seq > (select max(seq) from audit) - ${RECORDS}
         and not exists (
           select from audit as failed
           where failed.seq > signed.seq and failed.statement = 'backup'
             and failed.outcome = 'failed' and failed.digest = signed.digest)
       order by seq desc limit 1`,
    );
    const known = (await lastBackup.get()).values[0]?.value ?? 0;
    const [row] = rows;
    if (row !== undefined) lastBackup.set(Math.max(known, unixSeconds(row.recorded_at)));
  } catch (error) {
    log.warn({ event: "last_backup_unknown", reason: error instanceof Error ? error.message : "unknown" });
  }
}
