import { z } from "zod";
import type { Database } from "../db/database.ts";
import { numberOf, pageQuery, readPage } from "../input/pagination.ts";
import { type Route, route } from "../route.ts";
import { findHistory, historyFilters, newestFirst } from "./history_filters.ts";
import { type NamedRow, namedEntry, showNamedRow, withNames } from "./named_entry.ts";

const query = pageQuery.extend({
  ...historyFilters.shape,
  limit: z.preprocess(numberOf, z.int().min(1).max(1_000)).default(1_000),
});
const answer = z.object({
  events: z.array(namedEntry),
  next_cursor: z.string().nullable().describe("Null: the history has nothing older"),
});

/** What it answers. */
export type ExportAnswer = z.infer<typeof answer>;

/** `GET /v1/service/audit/personal/export`: the history in large pages, with names and receipts' hashes. */
export function exportRoute({ db }: { db: Database }): Route {
  return route({
    id: "export_audit_events",
    method: "GET",
    path: "/v1/service/audit/personal/export",
    summary: "Read the account's history in bulk, with names",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    query,
    answer: { status: 200, schema: answer, description: "A page of events, newest first" },
    errors: [],
    async handle({ caller, query }) {
      const found = withNames(db, findHistory(db, caller.accountId, query));
      const { rows, next_cursor } = await readPage<NamedRow>(found, newestFirst, query);
      return { body: { events: rows.map(showNamedRow), next_cursor } };
    },
  });
}
