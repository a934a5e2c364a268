import type { Pool, PoolClient } from "pg";
import { LOCK_NOT_AVAILABLE, outageReason, sqlState } from "../../db/errors.ts";
import { type Month, monthly, monthOf, readPartitions } from "../../db/months.ts";
import type { Logger } from "../../log.ts";

type DropDeps = {
  /** One connection whose statements may take long. */
  pool: Pool;
  now: Date;
  /** How many whole months the history is kept; undefined: permanently. */
  retentionMonths: number | undefined;
  log: Pick<Logger, "info" | "warn">;
};

/** Postings stay: balances are proven by them. */
const DROPPED = [monthly.audit_events, monthly.outcomes] as const;
/** Dropping a partition waits for its whole table, and keeps later callers waiting with it. */
const LOCK_MS = 500;

/**
 * Drops months of the history that ended so many months ago or earlier, the oldest first, each with the
 * outcomes of its decisions in one transaction. A month is dropped only when an archive of it was noted that
 * has as many rows as it has now, and when nothing that is still to happen needs it: a repeated call of an
 * operation, a rate that reaches back so far, the audit topic. The first month that is not is logged with
 * what it waits for, and no later one is dropped, so that the history has one begin. One process does it at
 * a time; others do nothing meanwhile.
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

/** Months that have partitions and are over at a moment, the oldest first. */
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

/** Drops a month, or gives why not. */
async function dropMonth(client: PoolClient, month: Month, now: Date): Promise<string | undefined> {
  await client.query("begin");
  try {
    await client.query(`set local lock_timeout = ${LOCK_MS}`);
    const names = await partitionsOf(client, month);
    // An outcome that is reported now is in the count, or finds its decision gone.
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
    if (sqlState(error) === LOCK_NOT_AVAILABLE) return "its tables are in use, as by a backup";
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
  ["default_rows", "rows that came without a partition are not in theirs yet"],
  ["queued", "Kafka does not have all of it yet"],
  ["invocations", "operations of this time are still known: INVOCATION_DAYS"],
  ["rates", "a certificate in force counts its uses so far back: max_rate"],
] as const;

/** What is still to happen that needs the month, if anything does. */
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

/** Why the month's archives do not do: there is none, or it got rows since the last one. */
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
    : `it has other rows than its archive: ${again}, another one`;
}
