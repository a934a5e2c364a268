import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { accountsRoutes } from "../../../src/accounts/routes.ts";
import { errorCodes } from "../../../src/errors.ts";
import { openApiDocument } from "../../../src/http/openapi/openapi.ts";
import { routeErrors } from "../../../src/http/openapi/route_errors.ts";
import { schemaOf } from "../../../src/http/openapi/schema.ts";
import type { Route } from "../../../src/route.ts";
import { startApi } from "../../support/api.ts";
import { echoRoute } from "../support/sample_routes.ts";
import { contract } from "../walk/documented.ts";

const info = { baseUrl: "https://api.example.com", word: "acme", version: "1.2.3" };
const samples: Route[] = [
  echoRoute({ id: "internal", access: "operator", path: "/internal/v1/state" }),
  echoRoute({
    id: "list_things",
    method: "GET",
    access: "session",
    path: "/v1/service/things/{thing_id}/parts",
    params: z.object({ thing_id: z.uuid() }),
    query: z.object({ limit: z.coerce.number().int().min(1).max(100).default(25), kind: z.string() }),
  }),
  echoRoute({
    id: "create_part",
    access: "session",
    path: "/v1/service/things/{thing_id}/parts",
    idempotent: true,
    body: z.object({ name: z.string(), size: z.int().optional() }),
    errors: ["platform_limit"],
  }),
  echoRoute({
    id: "keyed",
    access: "api_key",
    path: "/v1/service/keyed",
    body: z.object({ a: z.string() }).optional(),
  }),
];
const accounts = accountsRoutes({} as Parameters<typeof accountsRoutes>[0]);
const routes = [...accounts, ...samples];
const document = openApiDocument(routes, info) as {
  openapi: string;
  servers: { url: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { securitySchemes: Record<string, { name: string }>; schemas: { Error: object } };
};
type Operation = {
  operationId: string;
  security: Record<string, unknown>[];
  parameters?: { name: string; in: string; required: boolean; schema: object }[];
  requestBody?: { required: boolean; content: Record<string, { schema: object }> };
  responses: Record<string, { content: Record<string, { schema: object }>; "x-error-codes"?: string[] }>;
};

const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
const named = (id: string) => operations.find(({ operationId }) => operationId === id) as Operation;

describe("the OpenAPI document", () => {
  test("has version 3.1 and the service's URL", () => {
    expect(document).toMatchObject({
      openapi: "3.1.0",
      info: { version: "1.2.3" },
      servers: [{ url: info.baseUrl }],
    });
  });

  test("contains every public operation once, and no operator operations", () => {
    const ids = operations.map(({ operationId }) => operationId);
    expect(ids.sort()).toEqual(
      routes
        .filter(({ access }) => access !== "operator")
        .map(({ id }) => id)
        .sort(),
    );
  });

  test("uses the configured service name in paths, headers and cookies", () => {
    expect(Object.keys(document.paths)).toContain("/v1/acme/things/{thing_id}/parts");
    expect(Object.keys(document.paths)).toContain("/v1/auth/refresh");
    expect(document.components.securitySchemes).toMatchObject({
      session: { name: "__Host-acme_session" },
      refresh: { name: "__Host-acme_refresh" },
      csrf: { name: "X-Acme-CSRF" },
      api_key: { name: "X-Acme-API-Key" },
    });
  });

  test("describes how to authenticate", () => {
    expect(named("send_code").security).toEqual([]);
    expect(named("refresh_session").security).toEqual([{ refresh: [], csrf: [] }]);
    expect(named("get_session").security).toEqual([{ session: [] }]);
    expect(named("logout").security).toEqual([{ session: [], csrf: [] }]);
    expect(named("keyed").security).toEqual([{ api_key: [] }]);
  });

  test("describes path parameters, query parameters and the Idempotency-Key header", () => {
    expect(named("list_things").parameters).toMatchObject([
      { name: "thing_id", in: "path", required: true, schema: { type: "string", format: "uuid" } },
      { name: "limit", in: "query", required: false, schema: { minimum: 1, maximum: 100, default: 25 } },
      { name: "kind", in: "query", required: true, schema: { type: "string" } },
      { name: "X-Acme-Account", in: "header", required: false },
      { name: "X-Request-Id", in: "header", required: false },
    ]);
    expect(named("create_part").parameters).toMatchObject([
      { name: "thing_id", in: "path", required: true, schema: { type: "string" } },
      { name: "Idempotency-Key", in: "header", required: false },
      { name: "X-Acme-Account", in: "header", required: false },
      { name: "X-Request-Id", in: "header", required: false },
    ]);
  });

  test("states whether a body is required", () => {
    expect(named("create_part").requestBody?.required).toBe(true);
    expect(named("keyed").requestBody?.required).toBe(false);
    expect(named("get_session").requestBody).toBeUndefined();
  });

  test("lists every error code of an operation under its status", () => {
    for (const route of routes.filter(({ access }) => access !== "operator")) {
      const listed = Object.entries(named(route.id).responses).flatMap(([status, response]) =>
        (response["x-error-codes"] ?? []).map((code) => [code, Number(status)]),
      );
      const expected = routeErrors(route).map((code) => [code, errorCodes[code][0]]);
      expect(listed.sort()).toEqual(expected.sort());
    }
    expect(routeErrors(samples[2] as Route)).toEqual(
      expect.arrayContaining([
        "idempotency_conflict",
        "csrf_failed",
        "onboarding_incomplete",
        "not_found",
        "platform_limit",
      ]),
    );
  });

  test("has valid schemas that match real answers", async () => {
    const ajv = addFormats.default(new Ajv2020({ strict: false, allErrors: true }));
    const compiled = operations.flatMap(({ requestBody, responses }) => [
      ...Object.values(requestBody?.content ?? {}),
      ...Object.entries(responses).flatMap(([status, { content }]) =>
        status < "300" ? Object.values(content) : [],
      ),
    ]);
    for (const { schema } of compiled) ajv.compile(schema);
    const api = await startApi();
    const client = api.client();
    await client.onboard("ada@example.com");
    const fits = ajv.compile(
      named("get_session").responses[200]?.content["application/json"]?.schema ?? false,
    );
    expect(fits((await client.get("/v1/auth/session")).body)).toBe(true);
    expect(fits({})).toBe(false);
    const isError = ajv.compile(document.components.schemas.Error);
    expect(isError((await client.get("/v1/none")).body)).toBe(true);
    await api.stop();
  });

  test("contains only regular expressions that need no flag", () => {
    const patterns = [...JSON.stringify(contract.document).matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)].map(
      ([, text = ""]) => JSON.parse(text) as string,
    );
    expect(patterns.length).toBeGreaterThan(100);
    for (const pattern of new Set(patterns)) {
      expect(pattern).not.toMatch(/\\[pP]\{|\\u\{/);
      for (const text of ["a b", "\n", "\u0085", "2026-01-31T09:30:00Z", "é", "1"]) {
        expect(new RegExp(pattern).test(text)).toBe(new RegExp(pattern, "u").test(text));
      }
    }
    expect(schemaOf(z.string().regex(/^\p{L}+$/u), "input")).toEqual({ type: "string" });
    expect(schemaOf(z.object({ pattern: z.string() }), "input")).toHaveProperty("properties.pattern");
  });
});
