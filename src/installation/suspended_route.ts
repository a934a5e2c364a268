import { z } from "zod";
import type { Database } from "../db/database.ts";
import { counted } from "../events/event_states.ts";
import { isUuid } from "../ids.ts";
import { pageOf, pageQuery, readPage } from "../input/pagination.ts";
import { type Route, route } from "../route.ts";

/** Deliveries of an endpoint that are counted at most. */
const MOST_HELD = 1_000;

const endpoint = z.object({
  account_id: z.uuid(),
  connection_id: z.uuid(),
  host: z.string().nullable().describe("Of the callback URL; its path and query may hold secrets"),
  suspended_at: z.iso.datetime(),
  reason: z
    .enum(["gone", "failing"])
    .describe("gone: it answered 410; failing: it took nothing for 120 hours"),
  held: z.int().describe(`Deliveries that wait for it, counted up to ${MOST_HELD}`),
});
const answer = pageOf(endpoint);
/** A page of endpoints that the worker suspended. */
export type SuspendedAnswer = z.infer<typeof answer>;

type Row = {
  account_id: string;
  connection_id: string;
  callback_url: string | null;
  suspended_at: Date;
  suspend_reason: "gone" | "failing";
  held: number;
};

/** `GET /v1/service/installation/suspended-endpoints`: callbacks that get nothing, newest first. */
export function suspendedRoute({ database }: { database: Database }): Route {
  return route({
    id: "list_suspended_endpoints",
    method: "GET",
    path: "/v1/service/installation/suspended-endpoints",
    summary: "List callbacks that were suspended",
    access: "session",
    roles: "service_administrator",
    query: pageQuery,
    answer: { status: 200, schema: answer, description: "Suspended endpoints, newest first" },
    errors: [],
    async handle({ query }) {
      const held = counted(
        "webhook_deliveries d where d.endpoint_id = e.endpoint_id and d.state = 'held'",
        MOST_HELD,
      );
      // Both conditions, as the index has them.
      const suspended = database("webhook_endpoints as e")
        .join("connections as c", "c.connection_id", "e.connection_id")
        .whereNot("e.state", "active")
        .where("e.state", "suspended")
        .select("c.account_id", "c.connection_id", "c.callback_url", "e.suspended_at", "e.suspend_reason")
        .select(database.raw(`${held} as held`));
      const order = { time: "e.suspended_at", id: "e.endpoint_id", isId: isUuid };
      const { rows, next_cursor } = await readPage<Row>(suspended, order, query);
      return { body: { items: rows.map(answerOf), next_cursor } };
    },
  });
}

function answerOf({ callback_url, suspended_at, suspend_reason, ...row }: Row) {
  return {
    account_id: row.account_id,
    connection_id: row.connection_id,
    host: callback_url === null ? null : new URL(callback_url).host,
    suspended_at: suspended_at.toISOString(),
    reason: suspend_reason,
    held: row.held,
  };
}
