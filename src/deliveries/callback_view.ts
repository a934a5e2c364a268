import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { ConnectionRow } from "../db/key_tables.ts";
import type { WebhookEndpointRow } from "../db/tables.ts";
import { idText, isoTime } from "../input/schemas.ts";
import { callbackState } from "../platforms/platform_answers.ts";
import { findConnection, type LivePlatform } from "../platforms/platform_record.ts";
import { type Route, route } from "../route.ts";
import { endpointIdOf } from "../webhooks/endpoint.ts";
import type { TestDeps } from "./callback_routes.ts";

const MOST_COUNTED = 1_000;

/** A connection's callback: its URL, its state and the state of its secrets. */
export const callbackAnswer = z.object({
  connection_id: z.string(),
  platform_id: z.string(),
  platform_name: z.string(),
  callback_url: z.string().nullable(),
  callback_state: callbackState,
  paused_at: isoTime.nullable(),
  suspended_at: isoTime.nullable(),
  suspend_reason: z
    .enum(["gone", "failing"])
    .nullable()
    .describe("gone: the receiver answered 410; failing: it accepted nothing for 120 hours"),
  failing_since: isoTime.nullable().describe("Since when the receiver has accepted nothing"),
  left_alone_until: isoTime
    .nullable()
    .describe("Until when nothing is sent because the receiver failed repeatedly"),
  waiting: z.int().describe(`Deliveries that are pending or being sent, counted up to ${MOST_COUNTED}`),
  held: z.int().describe(`Deliveries that are held, counted up to ${MOST_COUNTED}`),
  next_secret_waits: z.boolean().describe("Whether a next webhook secret waits to be promoted"),
  next_secret_at: isoTime.nullable().describe("When the next webhook secret was created, if known"),
  former_secret_until: isoTime
    .nullable()
    .describe("Until when deliveries are also signed with the former webhook secret"),
  is_declared: z
    .boolean()
    .describe(
      "Whether a Kubernetes object declares the platform. The operator then keeps the credentials in its Secret",
    ),
});

/** `GET /v1/service/connections/{connection_id}/callback`. */
export function getCallbackRoute(deps: TestDeps): Route {
  return route({
    id: "get_callback",
    method: "GET",
    path: "/v1/service/connections/{connection_id}/callback",
    summary: "Read where a connection's events are delivered, and how that goes",
    access: "session",
    roles: ["developer", "auditor"],
    params: z.object({ connection_id: idText }),
    answer: { status: 200, schema: callbackAnswer, description: "The callback, without secrets" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const record = await findConnection(deps.db, caller.accountId, params.connection_id);
      return { body: await viewCallback(deps, record) };
    },
  });
}

type Endpoint = Pick<
  WebhookEndpointRow,
  "paused_at" | "suspended_at" | "suspend_reason" | "failing_since" | "breaker_open_until"
>;
type Secrets = Pick<ConnectionRow, "webhook_next_secret_at" | "webhook_former_until"> & { has_next: boolean };

async function viewCallback(
  { db, clock }: { db: Database; clock: Clock },
  record: LivePlatform,
): Promise<z.infer<typeof callbackAnswer>> {
  const { connection_id } = record;
  const endpoint_id = endpointIdOf(connection_id);
  const now = clock.now();
  const [endpoint, secrets, waiting, held] = await Promise.all([
    db("webhook_endpoints")
      .where({ endpoint_id })
      .first<Endpoint | undefined>(
        "paused_at",
        "suspended_at",
        "suspend_reason",
        "failing_since",
        "breaker_open_until",
      ),
    db("connections")
      .where({ connection_id })
      .first<Secrets | undefined>(
        "webhook_next_secret_at",
        "webhook_former_until",
        db.raw("webhook_next_secret_sealed is not null as has_next"),
      ),
    count(db, endpoint_id, ["pending", "sending"]),
    count(db, endpoint_id, ["held"]),
  ]);
  return {
    connection_id,
    platform_id: record.platform_id,
    platform_name: record.name,
    callback_url: record.callback_url,
    callback_state: record.callback_state,
    paused_at: moment(endpoint?.paused_at),
    suspended_at: moment(endpoint?.suspended_at),
    suspend_reason: endpoint?.suspend_reason ?? null,
    failing_since: moment(endpoint?.failing_since),
    left_alone_until: moment(later(endpoint?.breaker_open_until, now)),
    waiting,
    held,
    next_secret_waits: secrets?.has_next ?? false,
    next_secret_at: moment(secrets?.webhook_next_secret_at),
    former_secret_until: moment(later(secrets?.webhook_former_until, now)),
    is_declared: record.external_id !== null,
  };
}

/** Counts each state in its own query, so that Postgres can use the index for that state. */
async function count(db: Database, endpointId: string, states: readonly string[]): Promise<number> {
  const counts = await Promise.all(
    states.map((state) =>
      db("webhook_deliveries")
        .where({ endpoint_id: endpointId, state: state as "held" })
        .limit(MOST_COUNTED)
        .select(db.raw("1")),
    ),
  );
  return Math.min(MOST_COUNTED, counts.flat().length);
}

function later(date: Date | null | undefined, now: Date): Date | null {
  return date && date > now ? date : null;
}

function moment(date: Date | null | undefined): string | null {
  return date?.toISOString() ?? null;
}
