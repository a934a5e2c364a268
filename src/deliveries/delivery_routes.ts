import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { eventKinds } from "../events/kinds.ts";
import { isUuid } from "../ids.ts";
import { type PageOrder, pageOf, pageQuery, readPage } from "../input/pagination.ts";
import { idText, isoTimeInput } from "../input/schemas.ts";
import { findConnection, lockConnection } from "../platforms/platform_record.ts";
import { type Route, route } from "../route.ts";
import { endpointIdOf } from "../webhooks/endpoint.ts";
import { resendDelivery } from "../webhooks/resend_and_recover.ts";
import {
  type DeliveryRecord,
  deliveryAnswer,
  deliveryState,
  findDelivery,
  latestAttempts,
  readBody,
  selectDeliveries,
  showDelivery,
  showWholeDelivery,
  wholeDeliveryAnswer,
} from "./delivery_view.ts";
import type { OwnConnection, SendingRates } from "./sending_limits.ts";

const path = "/v1/service/connections/{connection_id}/deliveries";
const memberPath = `${path}/{delivery_id}`;
const params = z.object({ connection_id: idText });
const memberParams = params.extend({ delivery_id: idText });

const ATTEMPTS_SHOWN = 20;

const query = pageQuery.extend({
  state: deliveryState.optional(),
  event: z.enum(Object.keys(eventKinds) as (keyof typeof eventKinds)[]).optional(),
  since: isoTimeInput.optional().describe("Shows deliveries created at or after this time"),
  until: isoTimeInput.optional().describe("Shows deliveries created before this time"),
});

const newestFirst: PageOrder = { time: "d.created_at", id: "d.delivery_id", isId: isUuid };

/** `GET /v1/service/connections/{connection_id}/deliveries`: newest first. */
export function listDeliveriesRoute({ db }: ResendDeps): Route {
  return route({
    id: "list_deliveries",
    method: "GET",
    path,
    summary: "List the deliveries to a connection's callback URL",
    access: "session",
    roles: ["developer", "auditor"],
    params,
    query,
    answer: {
      status: 200,
      schema: pageOf(deliveryAnswer),
      description: "A page of deliveries, newest first",
    },
    errors: ["not_found"],
    async handle({ caller, params, query }) {
      const { connection_id } = await findConnection(db, caller.accountId, params.connection_id);
      const found = selectDeliveries(db, endpointIdOf(connection_id));
      if (query.state !== undefined) found.where({ "d.state": query.state });
      if (query.event !== undefined) found.where({ "d.event_type": query.event });
      if (query.since !== undefined) found.where("d.created_at", ">=", new Date(query.since));
      if (query.until !== undefined) found.where("d.created_at", "<", new Date(query.until));
      const { rows, next_cursor } = await readPage<DeliveryRecord>(found, newestFirst, query);
      return { body: { items: rows.map(showDelivery), next_cursor } };
    },
  });
}

/** `GET /v1/service/connections/{connection_id}/deliveries/{delivery_id}`: with the body and the attempts. */
export function getDeliveryRoute({ db }: ResendDeps): Route {
  return route({
    id: "get_delivery",
    method: "GET",
    path: memberPath,
    summary: "Read a delivery with its body and its latest attempts",
    access: "session",
    roles: ["developer", "auditor"],
    params: memberParams,
    answer: { status: 200, schema: wholeDeliveryAnswer, description: "The delivery, without secrets" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const { connection_id } = await findConnection(db, caller.accountId, params.connection_id);
      const record = await findDelivery(db, endpointIdOf(connection_id), params.delivery_id);
      const [content, attempts] = await Promise.all([
        readBody(db, record.delivery_id),
        latestAttempts(db, record.delivery_id, ATTEMPTS_SHOWN),
      ]);
      return { body: showWholeDelivery(record, content, attempts) };
    },
  });
}

/** `POST /v1/service/connections/{connection_id}/deliveries/{delivery_id}/resend`. */
export function resendDeliveryRoute(deps: ResendDeps): Route {
  return route({
    id: "resend_delivery",
    method: "POST",
    path: `${memberPath}/resend`,
    summary: "Send a delivery now that is finished or waits for a retry, with the same id and body",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    params: memberParams,
    answer: { status: 200, schema: deliveryAnswer, description: "The delivery, now due" },
    errors: [
      "not_found",
      "no_callback",
      "callback_inactive",
      "delivery_under_way",
      "delivery_body_erased",
      "delivery_limit",
    ],
    async handle({ caller, params }) {
      const own = { accountId: caller.accountId, connectionId: params.connection_id };
      return { body: showDelivery(await resendOwnDelivery(deps, own, params.delivery_id)) };
    },
  });
}

/** Dependencies of resending. */
export type ResendDeps = { db: Database; clock: Clock; sendingRates: SendingRates };

async function resendOwnDelivery(
  { db, clock, sendingRates }: ResendDeps,
  { accountId, connectionId }: OwnConnection,
  deliveryId: string,
): Promise<DeliveryRecord> {
  const { connection_id } = await findConnection(db, accountId, connectionId);
  const endpointId = endpointIdOf(connection_id);
  const { delivery_id } = await findDelivery(db, endpointId, deliveryId);
  await sendingRates.takeResend(connection_id);
  const refusal = await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    await findConnection(tx, accountId, connection_id);
    return resendDelivery(tx, endpointId, delivery_id, clock.now());
  });
  if (refusal !== undefined) throw new ApiError(refusal);
  return findDelivery(db, endpointId, delivery_id);
}
