import type { Pool, PoolClient } from "pg";
import { addSeconds } from "../../clock.ts";
import { CHECK_VIOLATION, sqlState } from "../../db/errors.ts";
import { monthly, monthOf, partitionName, readPartitions } from "../../db/months.ts";

const HOUR = 3_600;
/** Number of hours for which partitions of spent challenges are created in advance. */
const HOURS_AHEAD = 3;
/** Number of hours for which spent challenges are kept, far longer than a challenge is valid. */
const HOURS_KEPT = 2;
const MONTHS_AHEAD = 1;

/**
 * Creates the partitions that decisions will write to, and drops partitions of spent challenges that are no
 * longer needed at `agreed`. Without `agreed`, it drops and deletes nothing. Several processes may run it
 * concurrently.
 */
export async function maintainPartitions(pool: Pool, now: Date, agreed?: Date): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query("begin");
    await client.query("select pg_advisory_xact_lock(hashtext('deputize.partitions'))");
    const months = await missingMonths(client, now);
    for (const [parent, name, from, to] of [...challengeHours(now), ...months]) {
      await client.query("savepoint one");
      try {
        await client.query(
          `create table if not exists ${name} partition of ${parent} for values from ('${from}') to ('${to}')`,
        );
      } catch (error) {
        // The default partition already contains rows in this range, so new rows continue to go there.
        if (sqlState(error) !== CHECK_VIOLATION) throw error;
        await client.query("rollback to savepoint one");
      }
    }
    if (agreed !== undefined) await dropExpired(client, agreed);
    await client.query("commit");
  } catch (error) {
    await client.query("rollback").catch(() => {});
    throw error;
  } finally {
    client.release();
  }
}

async function dropExpired(client: PoolClient, now: Date): Promise<void> {
  for (const name of await expiredHours(client, now)) await client.query(`drop table ${name}`);
  await client.query("delete from spent_challenges_other where expires_at < $1", [
    addSeconds(now, -HOURS_KEPT * HOUR),
  ]);
}

type Partition = readonly [parent: string, name: string, from: string, to: string];

function challengeHours(now: Date): Partition[] {
  const first = Math.floor(now.getTime() / (HOUR * 1000)) * HOUR * 1000;
  return Array.from({ length: HOURS_AHEAD + 1 }, (_, n) => {
    const from = new Date(first + n * HOUR * 1000);
    return [
      "spent_challenges",
      hourName(from),
      from.toISOString(),
      addSeconds(from, HOUR).toISOString(),
    ] as const;
  });
}

async function missingMonths(client: Pick<PoolClient, "query">, now: Date): Promise<Partition[]> {
  const missing: Partition[] = [];
  for (const { table } of Object.values(monthly)) {
    const partitions = await readPartitions(client, table);
    for (let ahead = 0; ahead <= MONTHS_AHEAD; ahead += 1) {
      const month = monthOf(now, ahead);
      if (
        partitions.some(
          ({ from, to }) => from !== null && to !== null && from <= month.from && to > month.from,
        )
      ) {
        continue;
      }
      missing.push([table, partitionName(table, month), month.from.toISOString(), month.to.toISOString()]);
    }
  }
  return missing;
}

function hourName(from: Date): string {
  return `spent_challenges_${from.toISOString().slice(0, 13).replace(/[-T]/g, "_")}`;
}

async function expiredHours(client: { query: Pool["query"] }, now: Date): Promise<string[]> {
  const oldestKept = hourName(addSeconds(now, -HOURS_KEPT * HOUR));
  const { rows } = await client.query<{ name: string }>(
    `select inhrelid::regclass::text as name from pg_inherits where inhparent = 'spent_challenges'::regclass`,
  );
  return rows
    .map((row) => row.name)
    .filter((name) => /_\d{4}_\d{2}_\d{2}_\d{2}$/.test(name) && name < oldestKept);
}
