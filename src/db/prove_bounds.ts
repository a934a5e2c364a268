import type { PoolClient } from "pg";

/** A table that a migration attaches as the partition of all moments before one, by this column. */
export type GrowingBound = { table: string; column: string };

/** Milliseconds for locks: `brief` for one that keeps later callers of the table waiting with it. */
type LockTimes = { brief: number; long: number };

/** Months that a bound lies ahead, the one that runs included: it stays ahead for a month at least. */
const MONTHS_AHEAD = 2;

/**
 * Proves, beside those who read and write a table, that it has no row from a month on that is not yet near,
 * and that all its checks hold. A migration may then attach it as a partition without reading it under a
 * lock. The proof is a check `<table>_before_<yyyy>_<mm>`, which the migration drops: until then the table
 * takes no row of that month. One that a killed run left is used, or made anew when its month is near.
 */
export async function proveBounds(
  client: PoolClient,
  bounds: readonly GrowingBound[],
  times: LockTimes,
): Promise<void> {
  for (const bound of bounds) {
    await addCheck(client, bound, times);
    await validateChecks(client, bound, times);
  }
}

async function addCheck(client: PoolClient, { table, column }: GrowingBound, { brief }: LockTimes) {
  const { rows } = await client.query<{ wanted: string; moment: string; found: string[] }>(
    `select to_char(bound, $2) as wanted, to_char(bound, 'YYYY-MM-DD') as moment, array(
       select conname::text from pg_constraint where conrelid = $1::regclass and conname ~ $3
     ) as found
     from (select date_trunc('month', now() at time zone 'UTC') + make_interval(months => $4) as bound) as chosen`,
    [table, `"${table}_before_"YYYY"_"MM`, `^${table}_before_\\d{4}_\\d{2}$`, MONTHS_AHEAD],
  );
  const { wanted = "", moment = "", found = [] } = rows[0] ?? {};
  if (found.length === 1 && found[0] === wanted) return;
  await waitingFor(client, brief);
  const former = found.map((name) => `drop constraint ${name}, `).join("");
  await client.query(
    `alter table ${table} ${former}add constraint ${wanted} check (${column} < '${moment} 00:00:00+00') not valid`,
  );
}

/** Reading the table once for each check keeps nobody waiting but other changes of the table itself. */
async function validateChecks(client: PoolClient, { table }: GrowingBound, { long }: LockTimes) {
  const { rows } = await client.query<{ name: string }>(
    `select conname::text as name from pg_constraint
     where conrelid = $1::regclass and contype = 'c' and not convalidated order by 1`,
    [table],
  );
  await waitingFor(client, long);
  for (const { name } of rows) await client.query(`alter table ${table} validate constraint ${name}`);
}

async function waitingFor(client: PoolClient, ms: number): Promise<void> {
  await client.query("select set_config('lock_timeout', $1, false)", [String(ms)]);
}
