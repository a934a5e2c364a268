import { z } from "zod";
import { addSeconds, type Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { numberOf } from "../input/pagination.ts";
import { type Route, route } from "../route.ts";

const DAY_SECONDS = 24 * 60 * 60;

const query = z.object({
  days: z.preprocess(numberOf, z.int().min(1).max(90)).default(14).describe("How many days, today included"),
});

const count = z.int().min(0);
const dayCounts = z.object({
  day: z.iso.date().describe("A day in UTC"),
  allow: count,
  deny: count,
  indeterminate: count,
  charged: count.describe("Those of them that this account paid for"),
});
const answer = z.object({ days: z.array(dayCounts).describe("Every day, oldest first; today is the last") });

/** What it answers. */
export type DailyCounts = z.infer<typeof answer>;

type Row = { day: string; decision: "allow" | "deny" | "indeterminate"; number: number; charged: number };

/** `GET /v1/service/audit/personal/days`: how many decisions the history has of each day, by result. */
export function dailyCountsRoute({ db, clock }: { db: Database; clock: Clock }): Route {
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
      const { rows } = await db.raw<{ rows: Row[] }>(
        `select (occurred_at at time zone 'UTC')::date::text as day, decision, count(*)::int as number,
           (count(*) filter (where decision <> 'indeterminate' and verifier_account_id is null))::int as charged
         from audit_events
         where account_id = ? and occurred_at >= ? and decision is not null
         group by (occurred_at at time zone 'UTC')::date, decision`,
        [accountId, listed[0] ?? today],
      );
      return { body: { days: listed.map((start) => countsOf(dayOf(start), rows)) } };
    },
  });
}

function countsOf(day: string, rows: readonly Row[]): z.infer<typeof dayCounts> {
  const own = rows.filter((row) => row.day === day);
  const of = (decision: Row["decision"]) => own.find((row) => row.decision === decision)?.number ?? 0;
  const charged = own.reduce((sum, row) => sum + row.charged, 0);
  return { day, allow: of("allow"), deny: of("deny"), indeterminate: of("indeterminate"), charged };
}

function dayOf(time: Date): string {
  return time.toISOString().slice(0, 10);
}
