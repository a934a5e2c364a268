import type Koa from "koa";
import { type ZodType, z } from "zod";
import { type ErrorCode, errorCodes } from "../errors.ts";
import type { Access, Route } from "../route.ts";
import { idempotencyKey } from "./idempotency.ts";
import { createNames, type Names } from "./names.ts";
import { routeErrors } from "./route_errors.ts";

/** Where the document is found and what it says about itself. */
export type DocumentInfo = { baseUrl: string; word: string; version: string };

type Json = Record<string, unknown>;

const errorSchema = {
  type: "object",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["code", "message", "status"],
      properties: {
        code: { type: "string", enum: Object.keys(errorCodes) },
        message: { type: "string" },
        status: { type: "integer" },
      },
    },
  },
};

/**
 * The OpenAPI 3.1 document of the public operations, made from the schemas the routes validate with. The operator's
 * internal operations are not in it. Paths, headers and cookies carry the service's word, not its aliases.
 */
export function openApiDocument(routes: readonly Route[], { baseUrl, word, version }: DocumentInfo): Json {
  const names = createNames(word);
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    if (route.access === "operator") continue;
    const [path = route.path] = names.paths(route.path.replace("*}", "}"));
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Deputize",
      version,
      description: "Issues, keeps and checks authority that people lend to AI agents.",
    },
    servers: [{ url: baseUrl }],
    paths,
    components: { schemas: { Error: errorSchema }, securitySchemes: securitySchemes(names) },
  };
}

/** Serves the document at `/openapi.json`. It is made once. */
export function openApiPage(document: Json): Koa.Middleware {
  const text = JSON.stringify(document);
  return async (ctx, next) => {
    if (ctx.path !== "/openapi.json" || (ctx.method !== "GET" && ctx.method !== "HEAD")) return next();
    ctx.type = "application/json";
    ctx.body = text;
  };
}

function securitySchemes(names: Names): Json {
  return {
    session: { type: "apiKey", in: "cookie", name: names.cookie("session") },
    csrf: {
      type: "apiKey",
      in: "header",
      name: names.headers("x-service-csrf")[0],
      description: `The value of the cookie ${names.cookie("csrf")}`,
    },
    api_key: { type: "apiKey", in: "header", name: names.headers("x-service-api-key")[0] },
  };
}

function operation(route: Route): Json {
  return {
    operationId: route.id,
    summary: route.summary,
    tags: [tagOf(route.path)],
    security: security(route),
    ...parameters(route),
    ...requestBody(route),
    responses: {
      [route.answer.status]: {
        description: route.answer.description,
        headers: { "X-Request-Id": { schema: { type: "string" } } },
        content: { "application/json": { schema: schemaOf(route.answer.schema, "output") } },
      },
      ...otherResponses(route),
      ...errorResponses(routeErrors(route)),
    },
  };
}

function otherResponses({ otherAnswers = {} }: Route): Json {
  return Object.fromEntries(
    Object.entries(otherAnswers).map(([status, { description, schema }]) => [
      status,
      {
        description,
        ...(schema === undefined
          ? {}
          : { content: { "application/json": { schema: schemaOf(schema, "output") } } }),
      },
    ]),
  );
}

function tagOf(path: string): string {
  const segments = path.split("/").filter((segment) => segment !== "" && segment !== "v1");
  return (segments[0] === "service" ? segments[1] : segments[0]) ?? "service";
}

function security(route: Route): Json[] {
  const session = { session: [], ...(route.csrf === false || route.method === "GET" ? {} : { csrf: [] }) };
  const byAccess: Record<Access, Json[]> = {
    public: [],
    session: [session],
    api_key: [{ api_key: [] }],
    account: [{ api_key: [] }, session],
    operator: [],
  };
  return byAccess[route.access];
}

function parameters(route: Route): Json {
  const declared = new Map(members(route.params));
  const inPath = [...route.path.matchAll(/\{(\w+)\*?\}/g)].map(([, name = ""]) => ({
    name,
    in: "path",
    required: true,
    schema: declared.get(name) ?? { type: "string" },
  }));
  const required = requiredMembers(route.query);
  const inQuery = members(route.query).map(([name, schema]) => ({
    name,
    in: "query",
    required: required.has(name),
    schema,
  }));
  const all = [...inPath, ...inQuery, ...(route.idempotent ? [idempotencyHeader] : [])];
  return all.length === 0 ? {} : { parameters: all };
}

const idempotencyHeader = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description: "The same key and body give the first answer again for 24 hours",
  schema: schemaOf(idempotencyKey, "input"),
};

function members(schema: ZodType | undefined): [string, unknown][] {
  return schema === undefined ? [] : Object.entries((schemaOf(schema, "input").properties as Json) ?? {});
}

function requiredMembers(schema: ZodType | undefined): Set<string> {
  return new Set(schema === undefined ? [] : ((schemaOf(schema, "input").required as string[]) ?? []));
}

function requestBody(route: Route): Json {
  if (route.body === undefined) return {};
  const required = !route.body.safeParse(undefined).success;
  return {
    requestBody: { required, content: { "application/json": { schema: schemaOf(route.body, "input") } } },
  };
}

function errorResponses(codes: ErrorCode[]): Json {
  const byStatus = Map.groupBy(codes, (code) => errorCodes[code][0]);
  return Object.fromEntries(
    [...byStatus].map(([status, group]) => [
      status,
      {
        description: group.map((code) => `\`${code}\`: ${errorCodes[code][1]}`).join("\n\n"),
        content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
        "x-error-codes": group,
      },
    ]),
  );
}

function schemaOf(schema: ZodType, io: "input" | "output"): Json {
  const { $schema, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" }) as Json;
  return rest;
}
