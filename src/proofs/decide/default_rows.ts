import type { Pool, PoolClient } from "pg";
import { addSeconds } from "../../clock.ts";
import { type Month, type Monthly, monthly, parseMonth, partitionName } from "../../db/months.ts";
import type { Logger } from "../../log.ts";

type MendDeps = {
  /** Pool with one connection. Its statements may run for a long time. */
  pool: Pool;
  now: Date;
  log: Pick<Logger, "info" | "warn">;
  /** Milliseconds for which moving a month may block decisions. Default: 1,500. */
  budgetMs?: number;
};

/** Default of `budgetMs`. Must be shorter than the 2 s after which a waiting decision gives up. */
const BUDGET_MS = 1_500;
const LOCK_MS = 500;
/** Age in seconds after which rows are closed. No new row gets a time that is older than this. */
const CLOSED_SECONDS = 600;

/**
 * Moves rows of the history and the ledger from the default partition to the partitions of their months.
 * Readers see each row exactly once at every moment. The final transaction waits at most 500 ms for locks and
 * must finish within the budget. Otherwise it changes nothing, and the next run tries again. Logs every month
 * with such rows. Returns immediately if another process moves rows.
 */
export async function mendDefaultPartitions(deps: MendDeps): Promise<void> {
  const client = await deps.pool.connect();
  try {
    if (!(await isAlone(client))) return;
    for (const one of Object.values(monthly)) {
      for (const found of await monthsInDefault(client, one)) await mendMonth(client, one, found, deps);
    }
  } finally {
    await client.query("select pg_advisory_unlock_all()").catch(() => {});
    client.release();
  }
}

async function isAlone(client: PoolClient): Promise<boolean> {
  const { rows } = await client.query<{ free: boolean }>(
    "select pg_try_advisory_lock(hashtext('deputize.partitions.mend')) as free",
  );
  return rows[0]?.free === true;
}

type Found = { month: Month; rows: number };

async function monthsInDefault(client: PoolClient, { table, column }: Monthly): Promise<Found[]> {
  const { rows } = await client.query<{ name: string; rows: number }>(
    `select to_char(${column} at time zone 'UTC', 'YYYY-MM') as name, count(*) as rows
     from ${table}_other group by 1 order by 1`,
  );
  return rows.flatMap(({ name, rows }) => {
    const month = parseMonth(name);
    return month === undefined ? [] : { month, rows };
  });
}

async function mendMonth(client: PoolClient, one: Monthly, { month, rows }: Found, deps: MendDeps) {
  const { log, now, budgetMs = BUDGET_MS } = deps;
  const about = { table: one.table, month: month.name, rows };
  log.warn(about, "rows came while their month had no partition");
  const closed = addSeconds(now, -CLOSED_SECONDS);
  try {
    await copyClosed(client, one, month, closed);
    await takePlace(client, one, month, { closed, budgetMs });
    log.info(about, "rows were moved into the partition of their month");
  } catch (error) {
    await client.query("rollback");
    log.warn(
      { ...about, err: error },
      "rows stay in the default partition until the next run, because they could not be moved",
    );
  }
}

/** Selects rows that no longer change. Excludes presented proofs, which are deleted after minutes anyway. */
const isClosed = ({ table, column }: Monthly) =>
  `${column} < $3${table === monthly.audit_events.table ? " and decision is not null" : ""}`;

const inMonth = ({ column }: Monthly) => `${column} >= $1 and ${column} < $2`;

/** Copies the rows that no longer change to a new table. Replaces a table that an aborted run left behind. */
async function copyClosed(client: PoolClient, one: Monthly, month: Month, closed: Date): Promise<void> {
  const moving = movingName(one, month);
  const { table, column } = one;
  await client.query("begin");
  await client.query(`drop table if exists ${moving}`);
  await client.query(`create table ${moving} (like ${table} including all)`);
  // With this check constraint, Postgres need not read the rows when the table becomes a partition.
  await client.query(
    `alter table ${moving} add constraint ${moving} check
       (${column} >= '${month.from.toISOString()}' and ${column} < '${month.to.toISOString()}')`,
  );
  await client.query(
    `insert into ${moving} select * from ${table}_other where ${inMonth(one)} and ${isClosed(one)}`,
    [month.from, month.to, closed],
  );
  await client.query("commit");
}

type Bounds = { closed: Date; budgetMs: number };

async function takePlace(client: PoolClient, one: Monthly, month: Month, { closed, budgetMs }: Bounds) {
  const { table } = one;
  const moving = movingName(one, month);
  const values = [month.from, month.to];
  await client.query("begin");
  await client.query(`set local lock_timeout = ${LOCK_MS}`);
  // Lock the whole table. If an insert waited for the default partition only, that partition would refuse its
  // row afterwards.
  const isLedger = table === monthly.ledger_postings.table;
  await client.query(`lock table ${isLedger ? "credit_grants, " : ""}${table} in access exclusive mode`);
  const end = performance.now() + budgetMs;
  const inTime = async (sql: string, bindings: unknown[] = []) => {
    const left = Math.max(1, Math.floor(end - performance.now()));
    await client.query(`set local statement_timeout = ${left}`);
    return client.query(sql, bindings);
  };
  // Drop the foreign key first. With it, Postgres would look up deleted postings in the grants, one by one.
  if (isLedger) await inTime(`alter table credit_grants drop constraint ${GRANT_KEY}`);
  await inTime(
    `insert into ${moving} select * from ${table}_other where ${inMonth(one)} and not (${isClosed(one)})`,
    [...values, closed],
  );
  const { rowCount } = await inTime(`delete from ${table}_other where ${inMonth(one)}`, values);
  const { rows } = await inTime(`select count(*) as copied from ${moving}`);
  if (rows[0].copied !== rowCount) throw new Error("Rows have changed after they were copied");
  await inTime(
    `alter table ${table} attach partition ${moving}
     for values from ('${month.from.toISOString()}') to ('${month.to.toISOString()}')`,
  );
  await inTime(`alter table ${moving} drop constraint ${moving}`);
  await inTime(`alter table ${moving} rename to ${partitionName(table, month)}`);
  if (isLedger) await inTime(ADD_GRANT_KEY);
  await client.query("commit");
}

const movingName = ({ table }: Monthly, month: Month) => `${partitionName(table, month)}_moving`;

const GRANT_KEY = "credit_grants_account_id_posted_at_posting_id_fkey";
const ADD_GRANT_KEY = `
set local enable_hashjoin = off;
set local enable_mergejoin = off;
alter table credit_grants add constraint ${GRANT_KEY}
  foreign key (account_id, posted_at, posting_id) references ledger_postings deferrable initially deferred`;
