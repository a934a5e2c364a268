import { z } from "zod";
import { ApiError } from "../../../src/errors.ts";
import { type Route, route } from "../../../src/route.ts";

const anything = z.record(z.string(), z.unknown());
const done = { status: 200, schema: anything, description: "done" } as const;

/** Returns a route that returns its handler's input. */
export function echoRoute(overrides: Partial<Route> = {}): Route {
  return {
    id: "echo",
    method: "POST",
    path: "/v1/service/echo",
    summary: "Echo",
    access: "public",
    answer: done,
    errors: [],
    async handle({ caller, params, query, body, ip }) {
      const shown = body instanceof Uint8Array ? { bytes: Buffer.from(body).toString("base64") } : body;
      return { body: { caller, params, query, body: shown, ip } };
    },
    ...overrides,
  } as Route;
}

/** Returns a route that accepts `{text, list?}` and returns it. */
export function jsonRoute(): Route {
  return route({
    id: "json",
    method: "POST",
    path: "/v1/service/json",
    summary: "Take JSON",
    access: "public",
    body: z.object({ text: z.string(), list: z.array(z.object({ n: z.int() })).optional() }),
    answer: done,
    errors: [],
    handle: async ({ body }) => ({ body }),
  });
}

/** Returns a route that fails with the error that `fail` throws. */
export function failingRoute(fail: () => Promise<never>, id = "fail", path = "/v1/service/fail"): Route {
  return route({
    id,
    method: "POST",
    path,
    summary: "Fail",
    access: "public",
    answer: done,
    errors: ["agent_disabled"],
    handle: fail,
  });
}

/** Returns a function that throws an `ApiError` with this code and headers. */
export function refusal(...parts: ConstructorParameters<typeof ApiError>): () => Promise<never> {
  return async () => {
    throw new ApiError(...parts);
  };
}
