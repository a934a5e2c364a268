import type { Database } from "../../../src/db/database.ts";

/** For every table, its number of rows and a hash of them. */
export type Fingerprint = Record<string, string>;

/**
 * Excludes the migrations' tables, the activity list, which also records refusals, and the mails
 * about earlier requests and links and the last uses of keys, which the API stores at any time.
 */
export async function fingerprintOf(db: Database): Promise<Fingerprint> {
  const { rows: tables } = await db.raw<{ rows: { name: string }[] }>(
    `select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = current_schema() and c.relkind in ('r', 'p') and not c.relispartition
       and c.relname not like '%migration%'
       and c.relname not in ('organization_activity', 'mail_topics', 'mailing_queues', 'notices', 'key_uses') order by 1`,
  );
  const each = tables.map(
    ({ name }) =>
      `select '${name}' as name, count(*) || ':' || coalesce(sum(hashtextextended(t::text, 0)), 0) as print from ${name} t`,
  );
  const { rows } = await db.raw<{ rows: { name: string; print: string }[] }>(each.join(" union all "));
  return Object.fromEntries(rows.map(({ name, print }) => [name, print]));
}

function changedTables(before: Fingerprint, after: Fingerprint): string[] {
  return Object.keys(after).filter((name) => before[name] !== after[name]);
}

/** Returns a number that increases with every writing transaction, committed or not, in the whole server. */
async function writesSoFar(db: Database): Promise<string> {
  const { rows } = await db.raw<{ rows: { next: string }[] }>(
    "select pg_snapshot_xmax(pg_current_snapshot())::text as next",
  );
  return rows[0]?.next ?? "";
}

/** Returns the tables that have changed since the previous call. */
export type DatabaseWatch = { changes(): Promise<string[]> };

export async function watchDatabase(db: Database): Promise<DatabaseWatch> {
  let [before, written] = [await fingerprintOf(db), await writesSoFar(db)];
  return {
    async changes() {
      const now = await writesSoFar(db);
      if (now === written) return [];
      const after = await fingerprintOf(db);
      const tables = changedTables(before, after);
      [before, written] = [after, now];
      return tables;
    },
  };
}
