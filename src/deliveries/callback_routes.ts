import { z } from "zod";
import { idText } from "../input/schemas.ts";
import { callbackState } from "../platforms/answers.ts";
import { type Route, route } from "../route.ts";
import { pauseCallback, resumeCallback } from "./change_callback_state.ts";
import { type TestDeps, testCallback } from "./test_callback.ts";

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
      description: "The event, and the delivery that it becomes within a second or so",
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
    summary: "Send nothing more to a connection's callback URL and hold its events",
    access: "session",
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
      .describe("Whether what was held is sent now, or dropped for good"),
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
