import { z } from "zod";
import type { Database } from "../db/database.ts";
import type { WebhookRecoveryRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import { isUuid, newId } from "../ids.ts";
import { type PageOrder, pageOf, pageQuery, readPage } from "../input/pagination.ts";
import { idText, isoTime, isoTimeInput } from "../input/schemas.ts";
import { findConnection, lockConnection } from "../platforms/platform_record.ts";
import { type Route, route } from "../route.ts";
import { endpointIdOf, ensureEndpoints } from "../webhooks/endpoint.ts";
import type { ResendDeps } from "./delivery_routes.ts";
import { type OwnConnection, requireActiveCallback } from "./sending_limits.ts";

const recoverableState = z.enum(["failed", "rejected", "blocked", "delivered"]);

/** A recovery. */
export const recoveryAnswer = z.object({
  recovery_id: z.string(),
  state: z.enum(["running", "done", "cancelled"]),
  since: isoTime,
  until: isoTime,
  states: z.array(recoverableState),
  examined: z.int().describe("Deliveries examined so far"),
  resent: z.int(),
  left_out: z.int().describe("Deliveries not resent, because they have no body or had 50 attempts"),
  created_at: isoTime,
  finished_at: isoTime.nullable(),
});

const connection = "/v1/service/connections/{connection_id}";
const params = z.object({ connection_id: idText });

const recoveryBody = z.object({
  since: isoTimeInput.describe("Resends deliveries created at or after this time"),
  until: isoTimeInput
    .optional()
    .describe("Resends deliveries created before this time, which is at most now (the default)"),
  states: z
    .array(recoverableState)
    .min(1)
    .max(recoverableState.options.length)
    .default(["failed", "rejected", "blocked"]),
});

const newestFirst: PageOrder = { time: "r.created_at", id: "r.recovery_id", isId: isUuid };

/** `POST /v1/service/connections/{connection_id}/deliveries/recover`. */
export function recoverDeliveriesRoute(deps: ResendDeps): Route {
  return route({
    id: "recover_deliveries",
    method: "POST",
    path: `${connection}/deliveries/recover`,
    summary: "Resend the deliveries of a range of time, in small steps",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    params,
    body: recoveryBody,
    answer: {
      status: 201,
      schema: recoveryAnswer,
      description: "The recovery, now under way",
    },
    errors: ["not_found", "no_callback", "callback_inactive", "recovery_open"],
    async handle({ caller, params, body }) {
      const own = { accountId: caller.accountId, connectionId: params.connection_id };
      const opened = await openRecovery(deps, own, {
        since: new Date(body.since),
        until: body.until === undefined ? undefined : new Date(body.until),
        states: [...new Set(body.states)],
      });
      return { body: showRecovery(opened) };
    },
  });
}

/** `GET /v1/service/connections/{connection_id}/recoveries`: newest first. */
export function listRecoveriesRoute({ db }: ResendDeps): Route {
  return route({
    id: "list_recoveries",
    method: "GET",
    path: `${connection}/recoveries`,
    summary: "List the recoveries of a connection's deliveries",
    access: "session",
    roles: ["developer", "auditor"],
    params,
    query: pageQuery,
    answer: {
      status: 200,
      schema: pageOf(recoveryAnswer),
      description: "A page of recoveries, newest first",
    },
    errors: ["not_found"],
    async handle({ caller, params, query }) {
      const { connection_id } = await findConnection(db, caller.accountId, params.connection_id);
      const found = db("webhook_recoveries as r").where({ "r.endpoint_id": endpointIdOf(connection_id) });
      const page = await readPage<Parameters<typeof showRecovery>[0]>(
        found.select("r.*"),
        newestFirst,
        query,
      );
      return { body: { items: page.rows.map(showRecovery), next_cursor: page.next_cursor } };
    },
  });
}

/** `GET /v1/service/connections/{connection_id}/recoveries/{recovery_id}`. */
export function getRecoveryRoute({ db }: ResendDeps): Route {
  return route({
    id: "get_recovery",
    method: "GET",
    path: `${connection}/recoveries/{recovery_id}`,
    summary: "Read the progress of a recovery",
    access: "session",
    roles: ["developer", "auditor"],
    params: params.extend({ recovery_id: idText }),
    answer: { status: 200, schema: recoveryAnswer, description: "The recovery and its counts" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const own = { accountId: caller.accountId, connectionId: params.connection_id };
      return { body: showRecovery(await findRecovery(db, own, params.recovery_id)) };
    },
  });
}

/** The deliveries to resend: created at or after `since` and before `until`. */
type NewRecovery = { since: Date; until: Date | undefined; states: WebhookRecoveryRow["states"] };

/** A recovery excludes deliveries created after this call. */
async function openRecovery(
  { db, clock, sendingRates }: ResendDeps,
  { accountId, connectionId }: OwnConnection,
  { since, until, states }: NewRecovery,
): Promise<WebhookRecoveryRow> {
  const record = await findConnection(db, accountId, connectionId);
  const { connection_id } = record;
  const now = clock.now();
  const end = until !== undefined && until < now ? until : now;
  if (since >= end) throw new ApiError("invalid_request", "since: must be before until, and in the past");
  requireActiveCallback(record);
  const endpointId = endpointIdOf(connection_id);
  const open = await db("webhook_recoveries")
    .where({ endpoint_id: endpointId, state: "running" })
    .first("recovery_id");
  if (open !== undefined) throw new ApiError("recovery_open");
  await sendingRates.takeRecovery(connection_id);
  return db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    requireActiveCallback(await findConnection(tx, accountId, connection_id));
    await ensureEndpoints(tx, [connection_id], now);
    const [opened] = await tx("webhook_recoveries")
      .insert({
        recovery_id: newId(),
        endpoint_id: endpointId,
        since,
        until: end,
        states,
        seen_at: since,
        stepped_at: now,
        created_at: now,
      })
      .onConflict(tx.raw("(endpoint_id) where finished_at is null"))
      .ignore()
      .returning("*");
    if (opened === undefined) throw new ApiError("recovery_open");
    return opened;
  });
}

async function findRecovery(
  db: Database,
  { accountId, connectionId }: OwnConnection,
  recoveryId: string,
): Promise<WebhookRecoveryRow> {
  const { connection_id } = await findConnection(db, accountId, connectionId);
  if (!isUuid(recoveryId)) throw new ApiError("not_found");
  const found = await db("webhook_recoveries")
    .where({ recovery_id: recoveryId, endpoint_id: endpointIdOf(connection_id) })
    .first();
  if (found === undefined) throw new ApiError("not_found");
  return found;
}

function showRecovery(row: WebhookRecoveryRow): z.infer<typeof recoveryAnswer> {
  return {
    recovery_id: row.recovery_id,
    state: row.state,
    since: row.since.toISOString(),
    until: row.until.toISOString(),
    states: row.states.map((state) => recoverableState.parse(state)),
    examined: row.examined,
    resent: row.resent,
    left_out: row.left_out,
    created_at: row.created_at.toISOString(),
    finished_at: row.finished_at?.toISOString() ?? null,
  };
}
