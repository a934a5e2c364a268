import type { Knex } from "knex";
import { z } from "zod";
import type { AuditEventRow } from "../db/tables.ts";
import { isoTime } from "../input/schemas.ts";

export const historyEventType = z.enum(["proof.verified", "proof.rejected", "proof.presented"]);
export const historyDecision = z.enum(["allow", "deny", "indeterminate"]);

const details = z.object({
  decision: historyDecision.optional(),
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
export const historyEntry = z.object({
  event_id: z.string(),
  event_type: historyEventType,
  occurred_at: isoTime,
  agent_id: z.string(),
  cert_id: z.string().nullable(),
  connection_id: z.string(),
  details,
});

/** What an entry is shown from, of `audit_events` as `e`. */
export function historyColumns(db: Pick<Knex, "raw">) {
  return [
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
  ];
}

/** A row of {@link historyColumns}. */
export type HistoryRow = Pick<
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

/** A row of the history as its owner sees it, in answers and on the audit topic. */
export function showHistoryRow(row: HistoryRow): z.infer<typeof historyEntry> {
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

function showDetails(row: HistoryRow): z.infer<typeof details> {
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
