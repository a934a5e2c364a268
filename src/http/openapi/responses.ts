import { z } from "zod";
import { type ErrorCode, errorCodes } from "../../errors.ts";
import type { Names } from "../../input/names.ts";
import { askMembers } from "../../proofs/asking/refusal.ts";
import type { HeaderNotes, Route } from "../../route.ts";
import { exampleOf } from "./examples.ts";
import { routeErrors } from "./route_errors.ts";
import { type Json, schemaOf } from "./schema.ts";

type Response = { description: string; headers: Json; schemas: Json[]; codes?: ErrorCode[] };

/** Returns a route's responses by status, including errors with exactly the codes that it can throw. */
export function responsesOf(route: Route, names: Names): Json {
  const byStatus = new Map<number, Response>();
  for (const [status, response] of [...ownResponses(route, names), ...errorResponses(route)]) {
    const known = byStatus.get(status);
    byStatus.set(status, known === undefined ? response : both(known, response));
  }
  const inOrder = [...byStatus].sort(([a], [b]) => a - b);
  return Object.fromEntries(inOrder.map(([status, response]) => [status, shown(response)]));
}

function shown({ description, headers, schemas, codes }: Response): Json {
  const schema = schemas.length > 1 ? { anyOf: schemas } : schemas[0];
  return {
    description,
    headers: { "X-Request-Id": { $ref: "#/components/headers/RequestId" }, ...headers },
    ...(schema === undefined
      ? {}
      : { content: { "application/json": { schema, example: exampleOf(schema) } } }),
    ...(codes === undefined ? {} : { "x-error-codes": codes }),
  };
}

function both(one: Response, other: Response): Response {
  const codes = other.codes ?? one.codes;
  return {
    description: `${one.description}\n\n${other.description}`,
    headers: optional({ ...one.headers, ...other.headers }),
    schemas: [...one.schemas, ...other.schemas],
    ...(codes === undefined ? {} : { codes }),
  };
}

function optional(headers: Json): Json {
  return Object.fromEntries(
    Object.entries(headers).map(([name, header]) => [name, { ...(header as Json), required: false }]),
  );
}

function ownResponses(route: Route, names: Names): [number, Response][] {
  const replayed =
    route.idempotent === true
      ? {
          "Idempotent-Replayed": {
            description: "true when an earlier answer is returned again",
            ...text(false),
          },
        }
      : {};
  const rate = route.rate === undefined ? {} : rateHeaders;
  const { status, ...answer } = route.answer;
  return [
    [status, responseOf({ ...answer, headers: { ...answer.headers } }, names, { ...rate, ...replayed })] as [
      number,
      Response,
    ],
    ...Object.entries(route.otherAnswers ?? {}).map(([other, response]): [number, Response] => [
      Number(other),
      responseOf(response, names),
    ]),
  ];
}

type Declared = NonNullable<Route["otherAnswers"]>[number];

function responseOf(declared: Declared, names: Names, more: Json = {}): Response {
  const { description, schema, headers = {}, optionalHeaders = {} } = declared;
  return {
    description,
    headers: {
      ...headerObjects(headers, names),
      ...optional(headerObjects(optionalHeaders, names)),
      ...more,
    },
    schemas: schema === undefined || schema instanceof z.ZodUndefined ? [] : [schemaOf(schema, "output")],
  };
}

function headerObjects(notes: HeaderNotes, names: Names): Json {
  return Object.fromEntries(
    Object.entries(notes).map(([name, description]) => [names.header(name), { description, ...text(true) }]),
  );
}

function text(required: boolean): Json {
  return { required, schema: { type: "string" } };
}

const retryAfter = {
  description: "Whole seconds after which the call may be repeated",
  required: true,
  schema: { type: "string", pattern: "^[0-9]+$" },
};

const rateHeaders = {
  "RateLimit-Policy": {
    description: 'The rate that the call counts for: `"<kind>";q=<calls>;w=<seconds>`',
    ...text(false),
  },
  RateLimit: {
    description: 'The rest of that rate: `"<kind>";r=<calls>;t=<seconds until all are back>`',
    ...text(false),
  },
};

const challenge = {
  description: "How to authenticate: `ApiKey` with the header's name, or `Cookie` with the cookie's name",
  ...text(true),
};

function errorResponses(route: Route): [number, Response][] {
  const byStatus = Map.groupBy(routeErrors(route), (code) => errorCodes[code][0]);
  return [...byStatus].map(([status, codes]): [number, Response] => [
    status,
    {
      description: codes.map((code) => `\`${code}\`: ${errorCodes[code][1]}`).join("\n\n"),
      headers: {
        ...retryHeaders(status),
        ...(status === 401 ? { "WWW-Authenticate": challenge } : {}),
      },
      schemas: [errorSchema({ const: status }, codes)],
      codes,
    },
  ]);
}

function retryHeaders(status: number): Json {
  return status === 429 || status === 503 ? { "Retry-After": retryAfter } : {};
}

/** Members beside `error`, which only `no_active_delegation` can have. They are those of a denial. */
const { properties: askable } = schemaOf(z.object(askMembers), "output") as { properties: Json };

/** The title of every error's schema. */
export const ERROR = "Error";

/** Returns the schema of an error with this status and one of these codes. Default: any status and code. */
export function errorSchema(
  status: Json = { description: "The answer's HTTP status" },
  codes: readonly string[] = Object.keys(errorCodes),
): Json {
  return {
    title: ERROR,
    type: "object",
    description: "The answer to a call that was refused or failed",
    required: ["error"],
    additionalProperties: false,
    properties: {
      error: {
        type: "object",
        required: ["code", "message", "status"],
        additionalProperties: false,
        properties: {
          code: { type: "string", enum: codes, description: "Stable" },
          message: { type: "string", description: "For people" },
          status: { type: "integer", ...status },
        },
      },
      ...(codes.includes("no_active_delegation") && askable),
    },
  };
}
