import type { Knex } from "knex";
import { z } from "zod";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { isUuid, timeOfId } from "../ids.ts";
import type { PageOrder } from "../input/pagination.ts";
import { idText, isoTimeInput } from "../input/schemas.ts";
import { historyDecision, historyEventType } from "./history_entry.ts";

/** What the history can be narrowed down by. */
export const historyFilters = z.object({
  event_type: historyEventType.optional(),
  agent_id: idText.optional(),
  connection_id: idText.optional().describe("Decisions that this connection asked for"),
  cert_id: z
    .string()
    .min(1)
    .max(512)
    .regex(/^[^\0]*$/)
    .optional(),
  decision: historyDecision.optional(),
  decision_reason: idText.optional(),
  required_scope: z
    .string()
    .min(1)
    .max(256)
    .regex(/^[^\0]*$/)
    .optional(),
  since: isoTimeInput.optional().describe("The first moment to show"),
  until: isoTimeInput.optional().describe("The moment before which to show"),
  before: idText.optional().describe("An event's id: what comes after it in the list, which is older"),
});

/** What the history is asked for. */
export type HistoryFilters = z.infer<typeof historyFilters>;

/** The history's order, which an index follows: newest first. */
export const newestFirst: PageOrder = { time: "e.occurred_at", id: "e.event_id", isId: isUuid };

const COMPARED = ["agent_id", "cert_id", "decision", "decision_reason", "required_scope"] as const;

/**
 * An account's events, narrowed down. Every condition is on a column of one index that begins with account
 * and time: what is looked for is found in the index, and only what is shown is read.
 */
export function findHistory(db: Database, accountId: string, filters: HistoryFilters): Knex.QueryBuilder {
  const found = db("audit_events as e").where({ "e.account_id": accountId });
  for (const column of COMPARED) {
    const value = filters[column];
    if (value !== undefined) found.where(`e.${column}`, value);
  }
  const { connection_id, event_type, since, until, before } = filters;
  if (connection_id !== undefined) {
    // What is no id of a connection names none.
    found.where(isUuid(connection_id) ? { "e.connection_id": connection_id } : db.raw("false"));
  }
  if (event_type !== undefined) found.where({ "e.event_type": event_type }).where(decisionOf[event_type]);
  if (since !== undefined) found.where("e.occurred_at", ">=", new Date(since));
  if (until !== undefined) found.where("e.occurred_at", "<", new Date(until));
  if (before !== undefined) found.whereRaw("(e.occurred_at, e.event_id) < (?, ?)", placeOf(before));
  return found;
}

/** Where an event is in the history: its id carries its moment. */
function placeOf(eventId: string): [Date, string] {
  const occurredAt = isUuid(eventId) ? timeOfId(eventId) : undefined;
  if (occurredAt === undefined) throw new ApiError("invalid_request", "before: is not the id of an event");
  return [occurredAt, eventId];
}

/** Which decisions a kind of event has: the kind itself is in no index. */
const decisionOf: Record<z.infer<typeof historyEventType>, (found: Knex.QueryBuilder) => void> = {
  "proof.presented": (found) => found.whereNull("e.decision"),
  "proof.verified": (found) => found.where("e.decision", "allow"),
  "proof.rejected": (found) => found.whereIn("e.decision", ["deny", "indeterminate"]),
};
