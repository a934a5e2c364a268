import type { PoolClient } from "pg";

/** An index on a table in use. `on` is the rest of `create index` after the table's name. */
export type GrowingIndex = { name: string; table: string; on: string };

/**
 * Milliseconds to wait for locks. `brief`: for a lock that also blocks later users of the table. `long`: for
 * the transactions that must end before an index is built. This wait blocks nobody.
 */
type LockTimes = { brief: number; long: number };

/**
 * Builds indexes while other sessions read and write the tables, without a time limit. Rebuilds an index that
 * a killed or failed run left incomplete. Skips a complete index.
 */
export async function buildIndexes(
  client: PoolClient,
  indexes: readonly GrowingIndex[],
  times: LockTimes,
): Promise<void> {
  for (const index of indexes) {
    const isParted = await one<{ parted: boolean }>(
      client,
      "select relkind = 'p' as parted from pg_class where oid = to_regclass($1)",
      [index.table],
    );
    if (isParted?.parted === true) {
      await buildParted(client, index, times);
    } else {
      await buildBeside(client, index, times);
    }
  }
}

async function buildBeside(client: PoolClient, { name, table, on }: GrowingIndex, { long }: LockTimes) {
  const found = await stateOf(client, name);
  if (found?.whole === true) return;
  await waitingFor(client, long);
  if (found !== undefined) await client.query(`drop index concurrently ${name}`);
  await client.query(`create index concurrently ${name} on ${table} ${on}`);
}

/**
 * The index becomes valid when each partition has its own part of the index. Postgres creates the part of a
 * new partition automatically.
 */
async function buildParted(client: PoolClient, index: GrowingIndex, times: LockTimes) {
  const { name, table, on } = index;
  await waitingFor(client, times.brief);
  await client.query(`create index if not exists ${name} on only ${table} ${on}`);
  for (let part = await nextPart(client, index); part !== undefined; part = await nextPart(client, index)) {
    const ofPart = `${part}_${name.replace(`${table}_`, "")}`;
    await buildBeside(client, { name: ofPart, table: part, on }, times);
    await waitingFor(client, times.brief);
    await client.query(`alter index ${name} attach partition ${ofPart}`);
  }
}

/** Returns the name of a partition that has no part of the index yet. */
async function nextPart(client: PoolClient, { name, table }: GrowingIndex): Promise<string | undefined> {
  const found = await one<{ part: string }>(
    client,
    `select p.inhrelid::regclass::text as part from pg_inherits p
     where p.inhparent = to_regclass($1) and not exists (
       select from pg_inherits i join pg_index x on x.indexrelid = i.inhrelid
       where i.inhparent = to_regclass($2) and x.indrelid = p.inhrelid
     ) order by 1 limit 1`,
    [table, name],
  );
  return found?.part;
}

function stateOf(client: PoolClient, name: string) {
  return one<{ whole: boolean }>(
    client,
    "select indisvalid as whole from pg_index where indexrelid = to_regclass($1)",
    [name],
  );
}

async function waitingFor(client: PoolClient, ms: number): Promise<void> {
  await client.query("select set_config('lock_timeout', $1, false)", [String(ms)]);
}

async function one<Row extends object>(client: PoolClient, sql: string, values: string[]) {
  const { rows } = await client.query<Row>(sql, values);
  return rows[0];
}

/** A table that a migration attaches as a partition of all times in `column` before a bound. */
export type GrowingBound = { table: string; column: string };

/** Months from the start of the current month to the bound. They include all of the next month. */
const MONTHS_AHEAD = 2;

/**
 * Proves that all rows of a table are before a month in the near future, and that the table's checks are
 * valid, while other sessions read and write the table. A migration can then attach the table as a partition
 * without reading it under a lock.
 *
 * The proof is a check `<table>_before_<yyyy>_<mm>`, which the migration drops. Until then, the table accepts
 * no row of that month or later. Reuses the check of a killed run, or replaces that check if its month is
 * near.
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

/** Validates each check, by reading the table once. Blocks only other changes of the table's definition. */
async function validateChecks(client: PoolClient, { table }: GrowingBound, { long }: LockTimes) {
  const { rows } = await client.query<{ name: string }>(
    `select conname::text as name from pg_constraint
     where conrelid = $1::regclass and contype = 'c' and not convalidated order by 1`,
    [table],
  );
  await waitingFor(client, long);
  for (const { name } of rows) await client.query(`alter table ${table} validate constraint ${name}`);
}
