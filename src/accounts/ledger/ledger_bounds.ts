import type { Database } from "../../db/database.ts";

/** What a closed moment is older than: nothing is written to it any more, unless a clock is wrong. */
const CLOSED_AFTER = "5 minutes";

const leastOf = (select: (table: string) => string): string =>
  `least(${["balances", "ledger_postings", "audit_events"].map(select).join(", ")})`;

const accountAt = (place: string) =>
  leastOf(
    (table) =>
      `(select account_id from ${table} where account_id >= :from order by account_id ${place} limit 1)`,
  );

/**
 * The first account from `from` on, and the one with the row after the next `rows` of some table, if there is
 * any: all accounts before that one have no more than `rows` rows in each table together.
 */
export async function accountBounds(
  database: Database,
  bounds: { from: string; rows: number },
): Promise<{ first: string | null; end: string | null }> {
  const sql = `select ${accountAt("")} as first, ${accountAt("offset :rows")} as end`;
  const { rows } = await database.raw(sql, bounds);
  return rows[0];
}

/** The account after one, if there is any. */
export async function accountAfter(database: Database, account: string): Promise<string | null> {
  const next = leastOf(
    (table) => `(select account_id from ${table} where account_id > :account order by account_id limit 1)`,
  );
  const { rows } = await database.raw(`select ${next} as next`, { account });
  return rows[0].next;
}

/**
 * The closed moment up to which an account has about `rows` postings or events after another one; `infinity`
 * when what is left is fewer, or reaches into the moments that are not closed.
 */
export async function sliceEnd(
  database: Database,
  slice: { account: string; after: string; rows: number },
): Promise<string> {
  const momentAt = (table: string, column: string) =>
    `(select ${column} from ${table} where account_id = :account and ${column} > :after
      order by ${column} offset :rows limit 1)`;
  const { rows } = await database.raw(
    `select case when until < now() - interval '${CLOSED_AFTER}' then until::text else 'infinity' end as until
     from (select least(${momentAt("ledger_postings", "posted_at")},
                        ${momentAt("audit_events", "occurred_at")}) as until) as slice`,
    { ...slice, rows: slice.rows - 1 },
  );
  return rows[0].until;
}
