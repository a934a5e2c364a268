import { z } from "zod";
import { ApiError } from "../../../src/errors.ts";
import { type Route, route } from "../../../src/route.ts";

const anything = z.record(z.string(), z.unknown());
const done = { status: 200, schema: anything, description: "done" } as const;

/** A route that reports what its handler was given. */
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

/** A route that takes `{text, list?}` and gives it back. */
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

/** A route that fails as `fail` does. */
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

/** Refuses with a code and headers. */
export function refusal(...parts: ConstructorParameters<typeof ApiError>): () => Promise<never> {
  return async () => {
    throw new ApiError(...parts);
  };
}
