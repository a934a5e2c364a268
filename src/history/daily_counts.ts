import { LRUCache } from "lru-cache";
import { z } from "zod";
import { addSeconds, type Clock } from "../clock.ts";
import { atMost } from "../concurrency/at_most.ts";
import type { Database } from "../db/database.ts";
import { numberOf } from "../input/pagination.ts";
import { type Route, route } from "../route.ts";

const DAY_SECONDS = 24 * 60 * 60;
const NONE = { allow: 0, deny: 0, indeterminate: 0, charged: 0 };

const query = z.object({
  days: z
    .preprocess(numberOf, z.int().min(1).max(90))
    .default(14)
    .describe("The number of days, including today"),
});

const count = z.int().min(0);
const dayCounts = z.object({
  day: z.iso.date().describe("A day in UTC"),
  allow: count,
  deny: count,
  indeterminate: count,
  charged: count.describe("The decisions that this account paid for"),
});
const answer = z.object({ days: z.array(dayCounts).describe("Every day, oldest first; today is the last") });

/** The body of the answer. */
export type DailyCounts = z.infer<typeof answer>;

/** `GET /v1/service/audit/personal/days`: the number of decisions in the history, by day and result. */
export function dailyCountsRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  const countDays = createCountDays({ db, clock });
  return route({
    id: "count_decisions",
    method: "GET",
    path: "/v1/service/audit/personal/days",
    summary: "Count the account's decisions by day",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    query,
    answer: { status: 200, schema: answer, description: "The counts" },
    errors: [],
    async handle({ caller: { accountId }, query: { days } }) {
      const today = new Date(`${dayOf(clock.now())}T00:00:00Z`);
      const listed = Array.from({ length: days }, (_, ago) =>
        addSeconds(today, -ago * DAY_SECONDS),
      ).reverse();
      const counted = await countDays(accountId, listed);
      return {
        body: { days: listed.map(dayOf).map((day) => ({ day, ...(counted.get(day) ?? NONE) })) },
      };
    },
  });
}

/** The number of decisions on one day by result, and the number that the account paid for. */
type DayCounts = { allow: number; deny: number; indeterminate: number; charged: number };

/** Counts an account's decisions on consecutive days in UTC. Returns the counts by day (`2026-01-31`). */
type CountDays = (accountId: string, days: readonly Date[]) => Promise<Map<string, DayCounts>>;

type Row = { day: string; decision: "allow" | "deny" | "indeterminate"; number: number; charged: number };

/** Seconds from the end of a day until all rows of that day have certainly been written. */
const SETTLED_SECONDS = 300;
/** The number of cached days: 90 for each of about 500 accounts, about 100 bytes a day. */
const REMEMBERED = 50_000;

function dayOf(time: Date): string {
  return time.toISOString().slice(0, 10);
}

/** Creates a counter that caches days that are over, because the history only grows at its end. */
function createCountDays({ db, clock }: { db: Database; clock: Clock }): CountDays {
  const remembered = new LRUCache<string, DayCounts>(atMost(REMEMBERED));
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

/** Counts the rows per day and result. Reads only one index, if the table has been vacuumed. */
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
