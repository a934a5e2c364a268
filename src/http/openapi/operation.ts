import type { Names } from "../../input/names.ts";
import { type Access, type HeaderNotes, type MemberRole, memberRoles, type Route } from "../../route.ts";
import { idempotencyKey } from "../idempotency.ts";
import { MAX_REQUEST_ID } from "../request_head.ts";
import { exampleOf, requestExample } from "./examples.ts";
import { responsesOf } from "./responses.ts";
import { type Json, membersOf, schemaOf } from "./schema.ts";

/** Returns the OpenAPI operation of one route. */
export function operationOf(route: Route, names: Names): Json {
  return {
    operationId: route.id,
    summary: route.summary,
    security: securityOf(route),
    ...callersOf(route),
    ...(route.keyRoles && { "x-key-roles": route.keyRoles }),
    ...parameters(route, names),
    ...requestBody(route),
    responses: responsesOf(route, names),
  };
}

/** Returns the roles of an organization that may call the route with a session. */
function callersOf(route: Route): Json {
  const { roles = [] } = route;
  if (!isOfAccount(route)) return {};
  if (roles === "service_administrator") return { "x-roles": [roles] };
  return { "x-roles": roles === "person" ? [...memberRoles] : memberRoles.filter(isIn(["owner", ...roles])) };
}

function isOfAccount({ access }: Route): boolean {
  return access === "session" || access === "account";
}

function actsForAccounts(route: Route): boolean {
  return isOfAccount(route) && route.roles !== "service_administrator";
}

const isIn = (some: readonly MemberRole[]) => (role: MemberRole) => some.includes(role);

function securityOf(route: Route): Json[] {
  const csrf = route.csrf === false || route.method === "GET" ? {} : { csrf: [] };
  const session = { session: [], ...csrf };
  const demanded = Object.fromEntries((route.demands ?? []).map((name) => [name, []]));
  const byAccess: Record<Access, Json[]> = {
    public: route.demands === undefined ? [] : [demanded],
    session: [session],
    api_key: [{ api_key: [] }, ...(route.authorizationHeader ? [{ bearer: [] }] : [])],
    account: [{ api_key: [] }, session],
    operator: [],
  };
  return byAccess[route.access];
}

/** Marks a parameter that is the rest of a path, slashes included. OpenAPI has no such parameters. */
export const REST = "x-rest-of-path";

function parameters(route: Route, names: Names): Json {
  const declared = new Map(membersOf(route.params).map(({ name, schema }) => [name, schema]));
  const inPath = [...route.path.matchAll(/\{(\w+)(\*?)\}/g)].map(([, name = "", rest]) => {
    const schema = declared.get(name) ?? { type: "string" };
    return {
      name,
      in: "path",
      required: true,
      ...(rest === ""
        ? {}
        : { description: "The rest of the path; its first segment is the scope", [REST]: true }),
      schema,
      example: exampleOf(schema, name),
    };
  });
  const inQuery = membersOf(route.query).map(({ name, schema, required }) => ({
    name,
    in: "query",
    required,
    schema,
  }));
  return {
    parameters: [
      ...inPath,
      ...inQuery,
      ...(route.idempotent === true ? [idempotencyHeader] : []),
      ...(actsForAccounts(route) ? headerParameters(actFor, names) : []),
      ...headerParameters(route.headers ?? {}, names),
      requestIdHeader,
    ],
  };
}

const requestIdHeader = {
  name: "X-Request-Id",
  in: "header",
  required: false,
  description: "Any text; the answer returns it unchanged, and the log contains its first 128 characters",
  schema: { type: "string", maxLength: MAX_REQUEST_ID },
};

const actFor: HeaderNotes = {
  "X-Service-Account":
    "With a session: the organization to act for; without it the person acts for themselves",
};

const idempotencyHeader = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description:
    "For 24 hours, the same key and body return the first answer again, with the header `Idempotent-Replayed: true`",
  schema: schemaOf(idempotencyKey, "input"),
};

function headerParameters(notes: HeaderNotes, names: Names): Json[] {
  return Object.entries(notes).map(([name, description]) => ({
    name: names.header(name),
    in: "header",
    required: false,
    description,
    schema: { type: "string" },
  }));
}

function requestBody(route: Route): Json {
  if (route.body === undefined) return {};
  const required = !route.body.safeParse(undefined).success;
  const schema = schemaOf(route.body, "input");
  const example = requestExample(route.id, schema);
  return { requestBody: { required, content: { "application/json": { schema, example } } } };
}
