import type { PoolClient } from "pg";

/** A partition with the rows from `from` until before `to`. The default partition has null for both. */
export type Partition = { name: string; from: Date | number | null; to: Date | number | null };

/** A table partitioned by month, and the column that determines the month. */
export type Monthly = { table: string; column: string };

/** The tables that are partitioned by month. */
export const monthly = {
  audit_events: { table: "audit_events", column: "occurred_at" },
  outcomes: { table: "outcomes", column: "decided_at" },
  ledger_postings: { table: "ledger_postings", column: "posted_at" },
} as const satisfies Record<string, Monthly>;

const MONTH = /^(\d{4})-(0[1-9]|1[0-2])$/;

/** A calendar month in UTC, from its start until the start of the next one. `name` looks like `2026-01`. */
export type Month = { name: string; from: Date; to: Date };

/** Returns the month that contains a time, or the month `later` months after it. */
export function monthOf(time: Date, later = 0): Month {
  const from = new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + later));
  const to = new Date(Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 1));
  return { name: from.toISOString().slice(0, 7), from, to };
}

/** Parses a month such as `2026-01`. Returns undefined for any other string. */
export function parseMonth(text: string): Month | undefined {
  return MONTH.test(text) && !text.startsWith("0000") ? monthOf(new Date(`${text}-01T00:00:00Z`)) : undefined;
}

/** Returns the name of a month's partition. */
export function partitionName(table: string, { name }: Month): string {
  return `${table}_${name.replace("-", "_")}`;
}

/**
 * Returns a table's partitions, the earliest first and the default one last. The start of a partition without
 * a lower bound is -Infinity.
 */
export async function readPartitions(client: Pick<PoolClient, "query">, table: string): Promise<Partition[]> {
  const { rows } = await client.query<Partition>(
    `select name, coalesce(bounds[1], case when bounded then '-infinity' end)::timestamptz as "from",
            coalesce(bounds[2], case when bounded then 'infinity' end)::timestamptz as "to"
     from (
       select c.oid::regclass::text as name, bound like 'FOR VALUES FROM%' as bounded,
         array[substring(bound from 'FROM \\(''([^'']+)''\\)'), substring(bound from 'TO \\(''([^'']+)''\\)')] as bounds
       from pg_inherits i
       join pg_class c on c.oid = i.inhrelid
       cross join pg_get_expr(c.relpartbound, c.oid) as bound
       where i.inhparent = $1::regclass
     ) as found
     order by "from" nulls last`,
    [table],
  );
  return rows;
}
