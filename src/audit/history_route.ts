import { z } from "zod";
import type { Database } from "../db/database.ts";
import type { AuditEventRow } from "../db/tables.ts";
import { isUuid } from "../ids.ts";
import { type PageOrder, pageQuery, readPage } from "../input/pagination.ts";
import { idText, isoTime, isoTimeInput } from "../input/schemas.ts";
import { type Route, route } from "../route.ts";

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
  action_profile: z.string().optional().describe("What the application called the action"),
  verifier: z
    .object({ platform_name: z.string(), organization_name: z.string().nullable() })
    .optional()
    .describe(
      "Of a decision made elsewhere on this account's authority: who decided, and paid for it, by the names of then",
    ),
});

/** An audit event as answers show it; `details` is empty for `proof.presented` (specification §2). */
const eventAnswer = z.object({
  event_id: z.string(),
  event_type: eventType,
  occurred_at: isoTime,
  agent_id: z.string(),
  cert_id: z.string().nullable(),
  connection_id: z.string(),
  details,
});

const answer = z.object({ events: z.array(eventAnswer), next_cursor: z.string().nullable() });

const newestFirst: PageOrder = { time: "e.occurred_at", id: "e.event_id", isId: isUuid };

/** `GET /v1/service/audit/personal`: the account's proof events, newest first. */
export function historyRoute({ db }: { db: Database }): Route {
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
      const found = db("audit_events as e").where({ "e.account_id": caller.accountId });
      if (query.event_type !== undefined) found.where({ "e.event_type": query.event_type });
      if (query.agent_id !== undefined) found.where({ "e.agent_id": query.agent_id });
      if (query.decision !== undefined) found.where({ "e.decision": query.decision });
      if (query.since !== undefined) found.where("e.occurred_at", ">=", new Date(query.since));
      if (query.until !== undefined) found.where("e.occurred_at", "<", new Date(query.until));
      const columns = found.select(
        "e.event_id",
        "e.event_type",
        "e.occurred_at",
        "e.agent_id",
        "e.cert_id",
        "e.connection_id",
        "e.decision",
        "e.decision_reason",
        "e.required_scope",
        "e.verifier_account_id",
        "e.verifier_platform_name",
        "e.verifier_organization_name",
        db.raw("e.receipt_hash is not null as has_receipt"),
        db.raw("e.receipt::json ->> 'action_profile' as action_profile"),
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
  | "verifier_account_id"
  | "verifier_platform_name"
  | "verifier_organization_name"
> & {
  has_receipt: boolean;
  action_profile: string | null;
};

function showEvent(row: EventRow): z.infer<typeof eventAnswer> {
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
    ...(row.action_profile === null ? {} : { action_profile: row.action_profile }),
    ...(row.verifier_account_id === null
      ? {}
      : {
          verifier: {
            platform_name: row.verifier_platform_name ?? "",
            organization_name: row.verifier_organization_name,
          },
        }),
  };
}
