import { z } from "zod";
import type { Database } from "../db/connection.ts";
import type { AuditEventRow } from "../db/tables.ts";
import { isUuid } from "../ids.ts";
import { type PageOrder, pageQuery, readPage } from "../page.ts";
import { type Route, route } from "../route.ts";
import { idText, isoTime, isoTimeInput } from "../schemas.ts";

const eventType = z.enum(["proof.verified", "proof.rejected", "proof.presented"]);
const decision = z.enum(["allow", "deny", "indeterminate"]);

const query = pageQuery.extend({
  event_type: eventType.optional(),
  agent_id: idText.optional(),
  decision: decision.optional(),
  since: isoTimeInput.optional().describe("The first moment to show"),
  until: isoTimeInput.optional().describe("The moment before which to show"),
});

const details = z.object({
  decision: decision.optional(),
  decision_reason: z.string().optional(),
  required_scope: z.string().optional(),
  receipt_id: z.string().optional(),
});

/** An audit event as answers show it; `details` is empty for `proof.presented` (specification §2). */
const eventShape = z.object({
  event_id: z.string(),
  event_type: eventType,
  occurred_at: isoTime,
  agent_id: z.string(),
  cert_id: z.string().nullable(),
  connection_id: z.string(),
  details,
});

const answer = z.object({ events: z.array(eventShape), next_cursor: z.string().nullable() });

const newestFirst: PageOrder = { time: "occurred_at", id: "event_id", isId: isUuid };

/** `GET /v1/service/audit/personal`: the account's proof events, newest first. */
export function personalAuditRoute({ db }: { db: Database }): Route {
  return route({
    id: "list_audit_events",
    method: "GET",
    path: "/v1/service/audit/personal",
    summary: "Read the account's history of proofs",
    access: "session",
    query,
    answer: { status: 200, schema: answer, description: "A page of events, newest first" },
    errors: [],
    async handle({ caller, query }) {
      const found = db("audit_events").where({ account_id: caller.accountId });
      if (query.event_type !== undefined) found.where({ event_type: query.event_type });
      if (query.agent_id !== undefined) found.where({ agent_id: query.agent_id });
      if (query.decision !== undefined) found.where({ decision: query.decision });
      if (query.since !== undefined) found.where("occurred_at", ">=", new Date(query.since));
      if (query.until !== undefined) found.where("occurred_at", "<", new Date(query.until));
      const columns = found.select(
        "event_id",
        "event_type",
        "occurred_at",
        "agent_id",
        "cert_id",
        "connection_id",
        "decision",
        "decision_reason",
        "required_scope",
        db.raw("receipt_hash is not null as has_receipt"),
      );
      const { rows, next_cursor } = await readPage<EventRow>(columns, newestFirst, query);
      return { body: { events: rows.map(showEvent), next_cursor } };
    },
  });
}

type EventRow = Pick<
  AuditEventRow,
  | "event_id"
  | "event_type"
  | "occurred_at"
  | "agent_id"
  | "cert_id"
  | "connection_id"
  | "decision"
  | "decision_reason"
  | "required_scope"
> & { has_receipt: boolean };

function showEvent(row: EventRow): z.infer<typeof eventShape> {
  return {
    event_id: row.event_id,
    event_type: row.event_type,
    occurred_at: row.occurred_at.toISOString(),
    agent_id: row.agent_id,
    cert_id: row.cert_id,
    connection_id: row.connection_id,
    details: showDetails(row),
  };
}

function showDetails(row: EventRow): z.infer<typeof details> {
  if (row.decision === null) return {};
  return {
    decision: row.decision,
    ...(row.decision_reason === null ? {} : { decision_reason: row.decision_reason }),
    ...(row.required_scope === null ? {} : { required_scope: row.required_scope }),
    ...(row.has_receipt ? { receipt_id: row.event_id } : {}),
  };
}
