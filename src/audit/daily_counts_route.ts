import { z } from "zod";
import { addSeconds, type Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { numberOf } from "../input/pagination.ts";
import { type Route, route } from "../route.ts";
import { createCountDays, dayOf } from "./counted_days.ts";

const DAY_SECONDS = 24 * 60 * 60;
const NONE = { allow: 0, deny: 0, indeterminate: 0, charged: 0 };

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

/** `GET /v1/service/audit/personal/days`: how many decisions the history has of each day, by result. */
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
