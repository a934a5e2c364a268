import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import { appendEvent } from "../events/outbox.ts";
import { idText } from "../input/schemas.ts";
import { callbackState } from "../platforms/platform_answers.ts";
import { findConnection, lockConnection } from "../platforms/platform_record.ts";
import { type Route, route } from "../route.ts";
import type { SecretBox } from "../secret_box.ts";
import {
  type Backlog,
  deliveryIdOf,
  endpointIdOf,
  pauseEndpoint,
  resumeEndpoint,
} from "../webhooks/endpoint.ts";
import {
  type OwnConnection,
  requireActiveCallback,
  requireCallback,
  type SendingRates,
} from "./sending_limits.ts";

const path = "/v1/service/connections/{connection_id}";
const params = z.object({ connection_id: idText });
const stateAnswer = z.object({ connection_id: z.string(), callback_state: callbackState });

/** `POST /v1/service/connections/{connection_id}/deliveries/test`. */
export function testCallbackRoute(deps: TestDeps): Route {
  return route({
    id: "test_callback",
    method: "POST",
    path: `${path}/deliveries/test`,
    summary: "Send a test event, callback.test, to a connection's callback URL",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    params,
    answer: {
      status: 201,
      schema: z.object({ event_id: z.string(), delivery_id: z.string() }),
      description: "The event, and the delivery that the worker creates for it within about a second",
    },
    errors: ["not_found", "no_callback", "callback_inactive"],
    async handle({ caller, params }) {
      const own = { accountId: caller.accountId, connectionId: params.connection_id };
      return { body: await testCallback(deps, own) };
    },
  });
}

/** `POST /v1/service/connections/{connection_id}/callback/pause`. */
export function pauseCallbackRoute(deps: TestDeps): Route {
  return route({
    id: "pause_callback",
    method: "POST",
    path: `${path}/callback/pause`,
    summary: "Pause a connection's callback URL: send nothing more to it and hold its events",
    access: "session",
    ends: true,
    roles: ["developer"],
    idempotent: true,
    params,
    answer: { status: 200, schema: stateAnswer, description: "The callback is paused" },
    errors: ["not_found", "no_callback"],
    async handle({ caller, params }) {
      const own = { accountId: caller.accountId, connectionId: params.connection_id };
      await pauseCallback(deps, own);
      return { body: { connection_id: params.connection_id, callback_state: "paused" } };
    },
  });
}

const resumption = z
  .object({
    backlog: z
      .enum(["replay", "discard"])
      .default("replay")
      .describe("Whether held deliveries are sent now (replay) or cancelled permanently (discard)"),
  })
  .optional();

/** `POST /v1/service/connections/{connection_id}/callback/resume`. */
export function resumeCallbackRoute(deps: TestDeps): Route {
  return route({
    id: "resume_callback",
    method: "POST",
    path: `${path}/callback/resume`,
    summary: "Send to a paused or suspended callback URL again",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    params,
    body: resumption,
    answer: { status: 200, schema: stateAnswer, description: "The callback is active" },
    errors: ["not_found", "no_callback"],
    async handle({ caller, params, body }) {
      const own = { accountId: caller.accountId, connectionId: params.connection_id };
      await resumeCallback(deps, own, body?.backlog ?? "replay");
      return { body: { connection_id: params.connection_id, callback_state: "active" } };
    },
  });
}

/** Dependencies of test events. */
export type TestDeps = { db: Database; clock: Clock; secretBox: SecretBox; sendingRates: SendingRates };

/**
 * Appends a test event for the connection's callback URL. Returns the event's id, and the id of the delivery
 * that the worker will create. Throws `not_found`, `no_callback`, `callback_inactive`, `rate_limited`.
 */
export async function testCallback(
  { db, clock, secretBox, sendingRates }: TestDeps,
  { accountId, connectionId }: OwnConnection,
): Promise<{ event_id: string; delivery_id: string }> {
  const found = await findConnection(db, accountId, connectionId);
  requireActiveCallback(found);
  const { connection_id } = found;
  await sendingRates.takeTest(connection_id);
  const eventId = await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    requireActiveCallback(await findConnection(tx, accountId, connection_id));
    const now = clock.now();
    const fields = { connection_id, org_id: accountId, sent_at: now.toISOString() };
    return appendEvent(tx, secretBox, { type: "callback.test", connectionId: connection_id, fields }, now);
  });
  return { event_id: eventId, delivery_id: deliveryIdOf(endpointIdOf(connection_id), eventId) };
}

type Deps = { db: Database; clock: Clock };
type ResumeDeps = Deps & { sendingRates: Pick<SendingRates, "takeResume"> };

async function pauseCallback(deps: Deps, own: OwnConnection): Promise<void> {
  await change(deps, own, (tx, connectionId) => pauseEndpoint(tx, connectionId, deps.clock.now()));
}

/**
 * Resumes a callback. Throws `no_callback` without a URL, because then held deliveries could only be
 * cancelled. Throws `rate_limited`, because each call moves a thousand rows and sends requests to a URL that
 * may belong to anyone.
 */
async function resumeCallback(deps: ResumeDeps, own: OwnConnection, backlog: Backlog): Promise<void> {
  const { connection_id } = await findConnection(deps.db, own.accountId, own.connectionId);
  await deps.sendingRates.takeResume(connection_id);
  await change(deps, own, (tx, connectionId) => resumeEndpoint(tx, connectionId, backlog, deps.clock.now()));
}

async function change(
  { db }: Deps,
  { accountId, connectionId }: OwnConnection,
  work: (tx: Transaction, connectionId: string) => Promise<void>,
): Promise<void> {
  const { connection_id } = await findConnection(db, accountId, connectionId);
  await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    requireCallback(await findConnection(tx, accountId, connection_id));
    await work(tx, connection_id);
  });
}
