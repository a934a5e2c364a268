import { z } from "zod";
import type { Database } from "../db/database.ts";
import { counted } from "../events/event_states.ts";
import { isUuid } from "../ids.ts";
import { pageOf, pageQuery, readPage } from "../input/pagination.ts";
import { type Route, route } from "../route.ts";
import { figureStates, type Installation, partNames, partStates, units } from "./installation.ts";

/** Dependencies of the operations for service administrators. */
export type InstallationDeps = { installation: Installation; db: Database };

/** Returns the operations for service administrators. They show the state of parts, and no tenant data. */
export function installationRoutes({ installation, db }: InstallationDeps): Route[] {
  return [partRoute(installation), suspendedRoute(db)];
}

const figure = z.object({
  name: z
    .string()
    .describe(
      "The metric's name in docs/observability.md or docs/events.md, or a separate name if there is no metric",
    ),
  about: z
    .string()
    .nullable()
    .describe("The subject of the figure, if there are several: a consumer, a cluster"),
  value: z.union([z.number(), z.string()]).nullable(),
  unit: z.enum(units).describe("The unit of the value; a time is in ISO 8601"),
  at: z.iso.datetime().describe("When the value was read"),
  state: z.enum(figureStates),
});
const part = z.object({
  part: z.enum(partNames),
  state: z
    .enum(partStates)
    .describe("The worst state of its figures; away: the part, or the source of its figures, did not answer"),
  at: z.iso.datetime(),
  fault: z.string().nullable().describe("Why there are no figures"),
  figures: z.array(figure),
});
/** The state of a part of the installation, and its figures. */
export type PartAnswer = z.infer<typeof part>;

function partRoute(installation: Installation): Route {
  return route({
    id: "get_installation_part",
    method: "GET",
    path: "/v1/service/installation/parts/{part}",
    summary: "Read the state of a part of the installation",
    access: "session",
    roles: "service_administrator",
    params: z.object({ part: z.enum(partNames) }),
    answer: { status: 200, schema: part, description: "The state and the figures of the part" },
    errors: [],
    async handle({ params }) {
      const { at, figures, ...reading } = await installation.read(params.part);
      const listed = figures.map((each) => ({ ...each, at: each.at.toISOString() }));
      return { body: { ...reading, at: at.toISOString(), figures: listed } };
    },
  });
}

const MOST_HELD = 1_000;

const endpoint = z.object({
  account_id: z.uuid(),
  connection_id: z.uuid(),
  host: z
    .string()
    .nullable()
    .describe("The host of the callback URL; the rest is omitted because it may contain secrets"),
  suspended_at: z.iso.datetime(),
  reason: z
    .enum(["gone", "failing"])
    .describe("gone: it answered 410; failing: it accepted nothing for 120 hours"),
  held: z.int().describe(`Deliveries that wait for this endpoint, counted up to ${MOST_HELD}`),
});
const endpoints = pageOf(endpoint);
/** A page of webhook endpoints that the worker suspended. */
export type SuspendedAnswer = z.infer<typeof endpoints>;

type Row = {
  account_id: string;
  connection_id: string;
  callback_url: string | null;
  suspended_at: Date;
  suspend_reason: "gone" | "failing";
  held: number;
};

function suspendedRoute(database: Database): Route {
  return route({
    id: "list_suspended_endpoints",
    method: "GET",
    path: "/v1/service/installation/suspended-endpoints",
    summary: "List suspended callbacks",
    access: "session",
    roles: "service_administrator",
    query: pageQuery,
    answer: { status: 200, schema: endpoints, description: "Suspended endpoints, newest first" },
    errors: [],
    async handle({ query }) {
      const held = counted(
        "webhook_deliveries d where d.endpoint_id = e.endpoint_id and d.state = 'held'",
        MOST_HELD,
      );
      // The index requires both conditions.
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
