import { z } from "zod";
import type { Database } from "../db/database.ts";
import { isUuid } from "../ids.ts";
import { type PageOrder, pageQuery, readPage } from "../input/pagination.ts";
import { idText, isoTimeInput } from "../input/schemas.ts";
import { type Route, route } from "../route.ts";
import {
  type HistoryRow,
  historyColumns,
  historyDecision,
  historyEntry,
  historyEventType,
  showHistoryRow,
} from "./history_entry.ts";

const query = pageQuery.extend({
  event_type: historyEventType.optional(),
  agent_id: idText.optional(),
  decision: historyDecision.optional(),
  since: isoTimeInput.optional().describe("The first moment to show"),
  until: isoTimeInput.optional().describe("The moment before which to show"),
});

const answer = z.object({ events: z.array(historyEntry), next_cursor: z.string().nullable() });
/** What it answers. */
export type HistoryAnswer = z.infer<typeof answer>;

const newestFirst: PageOrder = { time: "e.occurred_at", id: "e.event_id", isId: isUuid };

/** `GET /v1/service/audit/personal`: the account's proof events, newest first. */
export function historyRoute({ db }: { db: Database }): Route {
  return route({
    id: "list_audit_events",
    method: "GET",
    path: "/v1/service/audit/personal",
    summary: "Read the account's history of proofs",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    query,
    answer: { status: 200, schema: answer, description: "A page of events, newest first" },
    errors: [],
    async handle({ caller, query }) {
      const found = db("audit_events as e").where({ "e.account_id": caller.accountId });
      if (query.event_type !== undefined) found.where({ "e.event_type": query.event_type });
      if (query.agent_id !== undefined) found.where({ "e.agent_id": query.agent_id });
      if (query.decision !== undefined) found.where({ "e.decision": query.decision });
      if (query.since !== undefined) found.where("e.occurred_at", ">=", new Date(query.since));
      if (query.until !== undefined) found.where("e.occurred_at", "<", new Date(query.until));
      const columns = found.select(...historyColumns(db));
      const { rows, next_cursor } = await readPage<HistoryRow>(columns, newestFirst, query);
      return { body: { events: rows.map(showHistoryRow), next_cursor } };
    },
  });
}
