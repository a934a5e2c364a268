import { LRUCache } from "lru-cache";
import { addSeconds, type Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";

/** How many decisions a day has by result, and how many of them the account paid for. */
export type DayCounts = { allow: number; deny: number; indeterminate: number; charged: number };

/** Counts an account's decisions of days in UTC that follow each other, by the day (`2026-01-31`). */
export type CountDays = (accountId: string, days: readonly Date[]) => Promise<Map<string, DayCounts>>;

type Row = { day: string; decision: "allow" | "deny" | "indeterminate"; number: number; charged: number };

const DAY_SECONDS = 24 * 60 * 60;
/** Seconds after a day's end at which nothing of it is still being written. */
const SETTLED_SECONDS = 300;
/** Days that are remembered: 90 of each of about 500 accounts, 100 bytes a day. */
const REMEMBERED = 50_000;

/** The day of a moment, in UTC. */
export function dayOf(time: Date): string {
  return time.toISOString().slice(0, 10);
}

/**
 * Counts days that are over once and remembers them: the history only grows, and only at its end. Each
 * process counts for itself.
 */
export function createCountDays({ db, clock }: { db: Database; clock: Clock }): CountDays {
  const remembered = new LRUCache<string, DayCounts>({ max: REMEMBERED });
  return async (accountId, days) => {
    const keyOf = (day: Date) => `${accountId} ${dayOf(day)}`;
    const found = new Map<string, DayCounts>();
    const first = days.findIndex((day) => !remembered.has(keyOf(day)));
    for (const day of first === -1 ? days : days.slice(0, first)) {
      const counts = remembered.get(keyOf(day));
      if (counts !== undefined) found.set(dayOf(day), counts);
    }
    const from = days[first];
    if (from === undefined) return found;
    const settled = addSeconds(clock.now(), -DAY_SECONDS - SETTLED_SECONDS);
    const rows = await countRows(db, accountId, from);
    for (const day of days.slice(first)) {
      const counts = countsOf(dayOf(day), rows);
      found.set(dayOf(day), counts);
      if (day <= settled) remembered.set(keyOf(day), counts);
    }
    return found;
  };
}

/** From one index alone, as far as its pages have been vacuumed. */
async function countRows(db: Database, accountId: string, from: Date): Promise<Row[]> {
  const { rows } = await db.raw<{ rows: Row[] }>(
    `select (occurred_at at time zone 'UTC')::date::text as day, decision, count(*)::int as number,
       (count(*) filter (where decision <> 'indeterminate' and verifier_account_id is null))::int as charged
     from audit_events
     where account_id = ? and occurred_at >= ? and decision is not null
     group by (occurred_at at time zone 'UTC')::date, decision`,
    [accountId, from],
  );
  return rows;
}

function countsOf(day: string, rows: readonly Row[]): DayCounts {
  const own = rows.filter((row) => row.day === day);
  const of = (decision: Row["decision"]) => own.find((row) => row.decision === decision)?.number ?? 0;
  const charged = own.reduce((sum, row) => sum + row.charged, 0);
  return { allow: of("allow"), deny: of("deny"), indeterminate: of("indeterminate"), charged };
}
