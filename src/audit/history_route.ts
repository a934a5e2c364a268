import { z } from "zod";
import type { Database } from "../db/database.ts";
import { pageQuery, readPage } from "../input/pagination.ts";
import { type Route, route } from "../route.ts";
import { type HistoryRow, historyColumns, historyEntry, showHistoryRow } from "./history_entry.ts";
import { findHistory, historyFilters, newestFirst } from "./history_filters.ts";

const answer = z.object({ events: z.array(historyEntry), next_cursor: z.string().nullable() });
/** What it answers. */
export type HistoryAnswer = z.infer<typeof answer>;

/** `GET /v1/service/audit/personal`: the account's proof events, newest first. */
export function historyRoute({ db }: { db: Database }): Route {
  return route({
    id: "list_audit_events",
    method: "GET",
    path: "/v1/service/audit/personal",
    summary: "Read the account's history of proofs",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    query: pageQuery.extend(historyFilters.shape),
    answer: { status: 200, schema: answer, description: "A page of events, newest first" },
    errors: [],
    async handle({ caller, query }) {
      const found = findHistory(db, caller.accountId, query).select(...historyColumns(db));
      const { rows, next_cursor } = await readPage<HistoryRow>(found, newestFirst, query);
      return { body: { events: rows.map(showHistoryRow), next_cursor } };
    },
  });
}
