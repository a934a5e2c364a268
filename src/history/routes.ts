import type { Knex } from "knex";
import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { isUuid, timeOfId } from "../ids.ts";
import { numberOf, type PageOrder, pageQuery, readPage } from "../input/pagination.ts";
import { idText, isoTimeInput } from "../input/schemas.ts";
import { type Route, route } from "../route.ts";
import { findCounterpart } from "./counterpart.ts";
import { dailyCountsRoute } from "./daily_counts.ts";
import {
  type HistoryRow,
  historyColumns,
  historyDecision,
  historyEntry,
  historyEventType,
  type NamedEntry,
  type NamedRow,
  namedEntry,
  showHistoryRow,
  showNamedRow,
  withNames,
} from "./history_entry.ts";
import { receiptCheckRoute, receiptRoute } from "./receipt_routes.ts";
import { searchHistory, searchWords } from "./search.ts";
import { createSearchLimit } from "./search_limits.ts";

const historyFilters = z.object({
  event_type: historyEventType.optional(),
  agent_id: idText.optional(),
  connection_id: idText.optional().describe("The connection that asked"),
  cert_id: z
    .string()
    .min(1)
    .max(512)
    .regex(/^[^\0]*$/)
    .optional(),
  decision: historyDecision.optional(),
  decided: z.literal("true").optional().describe("Omits presented proofs"),
  decision_reason: idText.optional(),
  required_scope: z
    .string()
    .min(1)
    .max(256)
    .regex(/^[^\0]*$/)
    .optional(),
  since: isoTimeInput.optional().describe("Events at or after this time"),
  until: isoTimeInput.optional().describe("Events before this time"),
  before: idText.optional().describe("Events older than this one"),
});

type HistoryFilters = z.infer<typeof historyFilters>;

/** The order of the list. An index has the same order. */
const newestFirst: PageOrder = { time: "e.occurred_at", id: "e.event_id", isId: isUuid };

const COMPARED = ["agent_id", "cert_id", "decision", "decision_reason", "required_scope"] as const;

/**
 * Selects the account's events that match the filters. All conditions are on columns of one index, which
 * begins with account and time. So Postgres searches only this index, and reads only the rows to show.
 */
function findHistory(db: Database, accountId: string, filters: HistoryFilters): Knex.QueryBuilder {
  const found = db("audit_events as e").where({ "e.account_id": accountId });
  for (const column of COMPARED) {
    const value = filters[column];
    if (value !== undefined) found.where(`e.${column}`, value);
  }
  const { connection_id, event_type, decided, since, until, before } = filters;
  if (connection_id !== undefined) {
    // An invalid id cannot match any connection.
    found.where(isUuid(connection_id) ? { "e.connection_id": connection_id } : db.raw("false"));
  }
  if (decided !== undefined) found.whereNotNull("e.decision");
  if (event_type !== undefined) found.where({ "e.event_type": event_type }).where(decisionOf[event_type]);
  if (since !== undefined) found.where("e.occurred_at", ">=", new Date(since));
  if (until !== undefined) found.where("e.occurred_at", "<", new Date(until));
  if (before !== undefined) found.whereRaw("(e.occurred_at, e.event_id) < (?, ?)", placeOf(before));
  return found;
}

/** Returns an event's position in the list. The event's id contains the event's time. */
function placeOf(eventId: string): [Date, string] {
  const occurredAt = isUuid(eventId) ? timeOfId(eventId) : undefined;
  if (occurredAt === undefined) throw new ApiError("invalid_request", "before: is not the id of an event");
  return [occurredAt, eventId];
}

/** Selects events of a kind by their decision, because no index contains the kind of event. */
const decisionOf: Record<z.infer<typeof historyEventType>, (found: Knex.QueryBuilder) => void> = {
  "proof.presented": (found) => found.whereNull("e.decision"),
  "proof.verified": (found) => found.where("e.decision", "allow"),
  "proof.rejected": (found) => found.whereIn("e.decision", ["deny", "indeterminate"]),
};

/** The body of the answer. */
export type EventAnswer = NamedEntry;

function eventRoute({ db }: { db: Database }): Route {
  return route({
    id: "get_audit_event",
    method: "GET",
    path: "/v1/service/audit/personal/{event_id}",
    summary: "Read one event of the account's history",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    params: z.object({ event_id: idText }),
    answer: { status: 200, schema: namedEntry, description: "The event" },
    errors: ["not_found"],
    async handle({ caller, params: { event_id } }) {
      // The id contains the time of the event, so the query reads a single place in the history.
      const occurredAt = isUuid(event_id) ? timeOfId(event_id) : undefined;
      if (occurredAt === undefined) throw new ApiError("not_found");
      const found = db("audit_events as e").where({
        "e.account_id": caller.accountId,
        "e.occurred_at": occurredAt,
        "e.event_id": event_id,
      });
      const row: NamedRow | undefined = await withNames(db, found).first();
      if (row === undefined) throw new ApiError("not_found");
      const counterpart_id = await findCounterpart(db, caller.accountId, row);
      return { body: { ...showNamedRow(row), ...(counterpart_id && { counterpart_id }) } };
    },
  });
}

const query = pageQuery.extend({
  ...historyFilters.shape,
  search: searchWords,
  limit: z.preprocess(numberOf, z.int().min(1).max(1_000)).default(1_000),
});
const exportAnswer = z.object({
  events: z.array(namedEntry),
  next_cursor: z.string().nullable().describe("Null if the history has no older events"),
});

/** The body of the answer. */
export type ExportAnswer = z.infer<typeof exportAnswer>;

/** `GET /v1/service/audit/personal/export`: the history in large pages, with names and hashes of receipts. */
export function exportRoute({ db }: { db: Database }): Route {
  const limited = createSearchLimit();
  return route({
    id: "export_audit_events",
    method: "GET",
    path: "/v1/service/audit/personal/export",
    summary: "Read the account's history in bulk, with names",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    query,
    answer: { status: 200, schema: exportAnswer, description: "A page of events, newest first" },
    errors: ["rate_limited"],
    async handle({ caller, query }) {
      const { accountId, person } = caller;
      const { search, since, until, before } = query;
      const found = findHistory(db, accountId, query);
      const { rows, next_cursor } =
        search === undefined
          ? await readPage<NamedRow>(withNames(db, found), newestFirst, query)
          : await limited({ accountId, personId: person.accountId }, () =>
              searchHistory(db, {
                accountId,
                range: findHistory(db, accountId, { since, until, before }),
                found,
                order: newestFirst,
                search,
                page: query,
              }),
            );
      return { body: { events: rows.map(showNamedRow), next_cursor } };
    },
  });
}

const historyAnswer = z.object({ events: z.array(historyEntry), next_cursor: z.string().nullable() });
/** The body of the answer. */
export type HistoryAnswer = z.infer<typeof historyAnswer>;

function historyRoute({ db }: { db: Database }): Route {
  return route({
    id: "list_audit_events",
    method: "GET",
    path: "/v1/service/audit/personal",
    summary: "Read the account's history of proofs",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    query: pageQuery.extend(historyFilters.shape),
    answer: { status: 200, schema: historyAnswer, description: "A page of events, newest first" },
    errors: [],
    async handle({ caller, query }) {
      const found = findHistory(db, caller.accountId, query).select(...historyColumns(db));
      const { rows, next_cursor } = await readPage<HistoryRow>(found, newestFirst, query);
      return { body: { events: rows.map(showHistoryRow), next_cursor } };
    },
  });
}

/** The operations of specification §4 "Audit". */
export function auditRoutes(deps: { db: Database; clock: Clock }): Route[] {
  return [
    historyRoute(deps),
    exportRoute(deps),
    dailyCountsRoute(deps),
    eventRoute(deps),
    receiptRoute(deps),
    receiptCheckRoute(deps),
  ];
}
