import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { pageQuery } from "../../src/input/pagination.ts";
import { startApi, type TestApi } from "../support/api.ts";
import { echoRoute } from "./support/sample_routes.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi({
    config: { TRUSTED_PROXIES: ["127.0.0.1"] },
    routes: [
      echoRoute({ id: "list", method: "GET", query: pageQuery }),
      echoRoute({
        id: "thing",
        method: "GET",
        path: "/v1/service/things/{thing_id}",
        params: z.object({ thing_id: z.uuid() }),
        query: z.object({ verbose: z.enum(["true", "false"]).optional() }),
      }),
      echoRoute({
        id: "created",
        path: "/v1/service/created",
        answer: { status: 201, schema: z.record(z.string(), z.unknown()), description: "created" },
      }),
      echoRoute({
        id: "either",
        path: "/v1/service/either",
        handle: async () => ({
          body: {},
          status: 201,
          headers: { "cache-control": "max-age=60", etag: '"1"' },
        }),
      }),
    ],
  });
});
afterAll(() => api.stop());

const get = (path: string, headers: Record<string, string> = {}) => api.client().get(path, { headers });
const refused = (message: RegExp) => ({
  status: 400,
  body: { error: { code: "invalid_request", message: expect.stringMatching(message) } },
});

describe("query parameters", () => {
  test("reach the handler as parsed by their schema", async () => {
    expect((await get("/v1/service/echo")).body).toMatchObject({ query: { limit: 25 } });
    expect((await get("/v1/service/echo?limit=100&cursor=a%20b&more=x")).body).toMatchObject({
      query: { limit: 100, cursor: "a b" },
    });
  });

  test.each([
    ["out of range", "limit=101", /^query\.limit: /],
    ["of a wrong type", "limit=many", /^query\.limit: /],
    ["in hexadecimal digits", "limit=0x10", /^query\.limit: /],
    ["with an exponent", "limit=1e1", /^query\.limit: /],
    ["with blanks around it", "limit=%2010%20", /^query\.limit: /],
    ["with a sign", "limit=%2B10", /^query\.limit: /],
    ["with a fraction", "limit=10.0", /^query\.limit: /],
    ["empty", "limit=", /^query\.limit: /],
    ["zero", "limit=0", /^query\.limit: /],
    ["given twice", "limit=1&limit=2", /^query: a parameter is repeated$/],
    ["given twice although unknown", "x=1&x=1", /^query: a parameter is repeated$/],
    ["with U+0000", "cursor=a%00", /^query: must not contain U\+0000$/],
    ["with U+0000 in its name", "a%00=1", /^query: must not contain U\+0000$/],
  ])("cause an error if they are %s", async (_, query, message) => {
    expect(await get(`/v1/service/echo?${query}`)).toMatchObject(refused(message));
  });

  test("undergo the same validation on routes with path parameters", async () => {
    const path = "/v1/service/things/019a0000-0000-7000-8000-000000000000";
    expect((await get(`${path}?verbose=true`)).body).toMatchObject({ query: { verbose: "true" } });
    expect(await get(`${path}?verbose=7`)).toMatchObject(refused(/^query\.verbose: /));
  });
});

describe("a path parameter", () => {
  test("causes not_found if it does not have the form of an id", async () => {
    const answer = await get("/v1/service/things/7");
    expect(answer).toMatchObject({ status: 404, body: { error: { code: "not_found" } } });
  });
});

describe("a call", () => {
  test("returns the route's status or the handler's status, and the handler's headers", async () => {
    expect((await api.client().post("/v1/service/created")).status).toBe(201);
    const either = await api.client().post("/v1/service/either");
    expect(either.status).toBe(201);
    expect(either.headers.get("cache-control")).toBe("max-age=60");
    expect(either.headers.get("etag")).toBe('"1"');
  });

  test("gives the handler the client's address if the call came through a trusted proxy", async () => {
    const { body } = await get("/v1/service/echo", { "x-forwarded-for": "6.6.6.6, 203.0.113.7" });
    expect(body).toMatchObject({ ip: "203.0.113.7" });
  });

  test("causes no log line if it succeeds or its path is unknown", async () => {
    const before = api.lines.length;
    await get("/v1/service/echo");
    await get("/v1/none");
    expect(api.lines).toHaveLength(before);
  });
});

test.each([
  ["id", [echoRoute({ id: "same", path: "/v1/a" }), echoRoute({ id: "same", path: "/v1/b" })]],
  ["place", [echoRoute({ id: "a", path: "/v1/{x}/a" }), echoRoute({ id: "b", path: "/v1/{y}/a" })]],
])("the API does not start if two routes have the same %s", async (_, routes) => {
  await expect(startApi({ shares: api, routes: routes })).rejects.toThrow(
    /^Two routes have the same id or path: /,
  );
});
