import { z } from "zod";
import { isUuid } from "../ids.ts";
import { type PageOrder, pageOf, pageQuery, readPage } from "../input/pagination.ts";
import { idText, isoTimeInput } from "../input/schemas.ts";
import { findConnection } from "../platforms/platform_record.ts";
import { type Route, route } from "../route.ts";
import { endpointIdOf } from "../webhooks/endpoint.ts";
import { recoverableState, recoveryAnswer, showRecovery } from "./answers.ts";
import { findRecovery, openRecovery } from "./recover.ts";
import type { ResendDeps } from "./resend.ts";

const connection = "/v1/service/connections/{connection_id}";
const params = z.object({ connection_id: idText });

const wish = z.object({
  since: isoTimeInput.describe("The first moment of their making"),
  until: isoTimeInput.optional().describe("The moment of their making before which; at most now"),
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
    summary: "Send the deliveries of a range of time again, little by little",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    params,
    body: wish,
    answer: { status: 201, schema: recoveryAnswer, description: "The recovery, which the worker works off" },
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
    summary: "Read how far a recovery is",
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
