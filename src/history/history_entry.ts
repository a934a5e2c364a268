import type { Knex } from "knex";
import { z } from "zod";
import { type Database, platformOf } from "../db/database.ts";
import type { AuditEventRow } from "../db/tables.ts";
import { explanationValues } from "../input/platform_fields.ts";
import { isoTime } from "../input/schemas.ts";

export const historyEventType = z.enum(["proof.verified", "proof.rejected", "proof.presented"]);
export const historyDecision = z.enum(["allow", "deny", "indeterminate"]);

const facts = z.record(z.string(), z.string());
const explanation = z.object({
  rule: z.string(),
  constraint: z.string().optional(),
  limit: facts.optional(),
  sent: facts.optional(),
  values: explanationValues.optional(),
});

const details = z.object({
  decision: historyDecision.optional(),
  decision_reason: z.string().optional(),
  required_scope: z.string().optional(),
  explanation: explanation.optional().describe("Why the decision was not allow"),
  receipt_id: z.string().optional(),
  action_profile: z.string().optional().describe("The application's name for the action"),
  verifier: z
    .object({ platform_name: z.string(), organization_name: z.string().nullable() })
    .optional()
    .describe("The other account that decided and paid, with its names at the time"),
});

/** An audit event as the API returns it. `details` is empty for `proof.presented` (specification §2). */
export const historyEntry = z.object({
  event_id: z.string(),
  event_type: historyEventType,
  occurred_at: isoTime,
  agent_id: z.string(),
  cert_id: z.string().nullable(),
  connection_id: z.string(),
  details,
});

/** Returns the columns of `audit_events` (alias `e`) from which an entry is created. */
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
    "e.explanation",
    "e.verifier_account_id",
    "e.verifier_platform_name",
    "e.verifier_organization_name",
    db.raw("e.receipt is not null as has_receipt"),
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
  | "explanation"
  | "verifier_account_id"
  | "verifier_platform_name"
  | "verifier_organization_name"
> & {
  has_receipt: boolean;
  action_profile: string | null;
};

/** Converts a row of the history to the entry that its owner sees in the API and on the audit topic. */
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
    ...(row.explanation === null ? {} : { explanation: row.explanation }),
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

/** An event with the names of its agent and platform, if they belong to the account. */
export const namedEntry = historyEntry.extend({
  agent_name: z.string().nullable().describe("Null for another account's agent"),
  platform_id: z.string().nullable().describe("Null for another account's"),
  platform_name: z.string().nullable(),
  scope_label: z.string().nullable().describe("The platform's label for the required custom scope"),
  human_id: z.string().nullable().describe("The principal at the root of the agent's chain"),
  counterpart_id: z.string().optional().describe("Event of its proof or decision"),
  receipt_hash: z.string().nullable().describe("sha256:<hex> of the receipt"),
});

/** An entry with names, as the API returns it. */
export type NamedEntry = z.infer<typeof namedEntry>;

/** A row of {@link withNames}. */
export type NamedRow = HistoryRow &
  Pick<
    NamedEntry,
    "agent_name" | "platform_id" | "platform_name" | "scope_label" | "human_id" | "receipt_hash"
  >;

/** Adds the fields of {@link NamedRow} to a query of `audit_events` as `e`. */
export function withNames(db: Database, found: Knex.QueryBuilder): Knex.QueryBuilder {
  const own = (alias: string, column: string): Knex.JoinCallback =>
    function () {
      this.on(`${alias}.account_id`, "e.account_id").on(`${alias}.${column}`, `e.${column}`);
    };
  return found
    .leftJoin("agents as a", own("a", "agent_id"))
    .leftJoin("connections as c", own("c", "connection_id"))
    .leftJoin("platforms as p", "p.platform_id", db.raw(platformOf("c")))
    .leftJoin("certificates as t", own("t", "cert_id"))
    .leftJoin("delegation_requests as r", "r.request_id", "t.request_id")
    .select(
      ...historyColumns(db),
      "e.human_id",
      // The agents of a customer connection belong to the customer. The publisher created and named them.
      db.raw(
        `case when c.product_id is null then a.name
           else (select b.name from agents b where b.agent_id = e.agent_id and b.connection_id = e.connection_id) end
           as agent_name`,
      ),
      "p.platform_id",
      "p.name as platform_name",
      // The words that the approver saw. Without a certificate, nobody approved, and the current words count.
      db.raw(
        "coalesce(r.scope_descriptions, p.scope_descriptions) -> e.required_scope ->> 'label' as scope_label",
      ),
      db.raw("'sha256:' || encode(e.receipt_hash, 'hex') as receipt_hash"),
    );
}

/** Converts a row with names to the entry that its owner sees. */
export function showNamedRow(row: NamedRow): NamedEntry {
  const { agent_name, platform_id, platform_name, scope_label, human_id, receipt_hash } = row;
  return {
    ...showHistoryRow(row),
    agent_name,
    platform_id,
    platform_name,
    scope_label,
    human_id,
    receipt_hash,
  };
}
