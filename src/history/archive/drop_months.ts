import type { Pool, PoolClient } from "pg";
import { LOCK_NOT_AVAILABLE, outageReason, sqlState } from "../../db/errors.ts";
import { type Month, monthly, monthOf, readPartitions } from "../../db/months.ts";
import type { Logger } from "../../log.ts";

type DropDeps = {
  /** A pool of one connection whose statements may take long. */
  pool: Pool;
  now: Date;
  /** The number of whole months for which the history is kept. Undefined means permanently. */
  retentionMonths: number | undefined;
  log: Pick<Logger, "info" | "warn">;
};

/** Postings are never dropped, because they prove the balances. */
const DROPPED = [monthly.audit_events, monthly.outcomes] as const;
/** Milliseconds to wait for a lock on the whole table. Later users of the table are blocked meanwhile. */
const LOCK_MS = 500;

/**
 * Drops months of the history that are past their retention, oldest first, each in one transaction with the
 * outcomes of its decisions.
 *
 * Drops a month only if a recorded archive has as many rows as the month has now, and if no repeated call,
 * rate limit or audit topic still needs it. Otherwise logs the reason and drops no later month, so that the
 * history has a single beginning. Returns immediately if another process does this.
 */
export async function dropOldMonths({ pool, now, retentionMonths, log }: DropDeps): Promise<void> {
  if (retentionMonths === undefined) return;
  const client = await pool.connect();
  try {
    const { rows } = await client.query<{ free: boolean }>(
      "select pg_try_advisory_lock(hashtext('deputize.history.drop')) as free",
    );
    if (rows[0]?.free !== true) return;
    for (const month of await monthsUntil(client, monthOf(now, -retentionMonths).from)) {
      const kept = await dropMonth(client, month, now);
      if (kept !== undefined) {
        log.warn({ month: month.name, reason: kept }, "a month of the history is past its time, and is kept");
        break;
      }
      log.info({ month: month.name }, "a month of the history was dropped: it is in its archive");
    }
  } finally {
    await client.query("select pg_advisory_unlock_all()").catch(() => {});
    client.release();
  }
}

async function monthsUntil(client: PoolClient, end: Date): Promise<Month[]> {
  const months = new Map<string, Month>();
  for (const { table } of DROPPED) {
    for (const { from, to } of await readPartitions(client, table)) {
      if (!(from instanceof Date) || !(to instanceof Date) || to > end) continue;
      const month = monthOf(from);
      if (+month.from === +from && +month.to === +to) months.set(month.name, month);
    }
  }
  return [...months.values()].sort((a, b) => +a.from - +b.from);
}

/** Drops a month, or returns why it must be kept. */
async function dropMonth(client: PoolClient, month: Month, now: Date): Promise<string | undefined> {
  await client.query("begin");
  try {
    await client.query(`set local lock_timeout = ${LOCK_MS}`);
    const names = await partitionsOf(client, month);
    // A report of an outcome that arrives after this lock waits, and finds no decision after the drop.
    if (names.length > 0) await client.query(`lock table ${names.join(", ")} in share mode`);
    const kept = (await stillNeeded(client, month, now)) ?? (await notArchived(client, month));
    if (kept === undefined) {
      for (const name of names) await client.query(`drop table ${name}`);
      await client.query(
        "update history_archives set dropped_at = $2 where starts_at = $1 and dropped_at is null",
        [month.from, now],
      );
    }
    await client.query("commit");
    return kept;
  } catch (error) {
    await client.query("rollback").catch(() => {});
    if (sqlState(error) === LOCK_NOT_AVAILABLE) return "its tables are in use, for example by a backup";
    return `it could not be dropped: ${outageReason(error)}`;
  }
}

async function partitionsOf(client: PoolClient, month: Month): Promise<string[]> {
  const names: string[] = [];
  for (const { table } of DROPPED) {
    const found = await readPartitions(client, table);
    names.push(
      ...found
        .filter(({ from, to }) => +(from ?? 0) === +month.from && +(to ?? 0) === +month.to)
        .map(({ name }) => name),
    );
  }
  return names;
}

const REASONS = [
  ["default_rows", "rows from before its partition existed have not been moved yet"],
  ["queued", "Kafka does not contain all of its history yet"],
  ["invocations", "operations of this time can still be repeated: INVOCATION_DAYS"],
  ["rates", "a certificate in force counts uses that far back: max_rate"],
] as const;

/** Returns what still needs the month, or undefined if nothing does. */
async function stillNeeded(client: PoolClient, month: Month, now: Date): Promise<string | undefined> {
  const { rows } = await client.query<Record<(typeof REASONS)[number][0], boolean>>(
    `select
       exists (select from audit_events_other where occurred_at < $1)
         or exists (select from outcomes_other where decided_at < $1) as default_rows,
       exists (select from history_queue where occurred_at < $1) as queued,
       exists (select from invocations where decided_at < $1) as invocations,
       exists (
         select from certificates c, jsonb_path_query(c.cert_json::jsonb, '$.**?(@.type == "max_rate").window_s') w
         where c.cert_json like '%"max_rate"%' and c.status = 'approved' and c.issued_at < $1
           and (c.expires_at is null or c.expires_at > $2)
           and extract(epoch from $2::timestamptz) - w::numeric < extract(epoch from $1::timestamptz)
       ) as rates`,
    [month.to, now],
  );
  return REASONS.find(([name]) => rows[0]?.[name])?.[1];
}

/** Returns why the month is not archived (no archive, or different rows now), or undefined if it is. */
async function notArchived(client: PoolClient, month: Month): Promise<string | undefined> {
  const again = `deputize history archive --month ${month.name} --to <folder>`;
  const { rows: archives } = await client.query<{ row_counts: Record<string, number> }>(
    "select row_counts from history_archives where starts_at = $1",
    [month.from],
  );
  if (archives.length === 0) return `it is not archived: ${again}`;
  const [events, outcomes] = DROPPED;
  const { rows } = await client.query<Record<string, number>>(
    `select
       (select count(*) from audit_events
        where occurred_at >= $1 and occurred_at < $2 and decision is not null) as ${events.table},
       (select count(*) from outcomes where decided_at >= $1 and decided_at < $2) as ${outcomes.table}`,
    [month.from, month.to],
  );
  const has = (counts: Record<string, number>) =>
    DROPPED.every(({ table }) => counts[table] === Number(rows[0]?.[table]));
  return archives.some(({ row_counts }) => has(row_counts))
    ? undefined
    : `its rows differ from its archive: ${again} with another folder`;
}
