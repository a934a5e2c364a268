import { STATUS_CODES } from "node:http";
import { isDeepStrictEqual } from "node:util";
import { errorCodes } from "../../errors.ts";
import { memberRoles } from "../../route.ts";
import { type Operation, type Response, shareComponents } from "./components.ts";
import { linksOf } from "./links.ts";
import { openSchema, withoutUnions } from "./open_responses.ts";
import { REST } from "./operation.ts";
import { ERROR, errorSchema } from "./responses.ts";
import { EVERY_ROUTE } from "./route_errors.ts";
import type { Json } from "./schema.ts";

/** The header of every response and request. The description of the API names it once. */
const EVERYWHERE = "X-Request-Id";
/** The header of every call with a session. The description of the API names it once. */
const ACTS_FOR = /^X-\w+-Account$/;
/** A header of responses that the parameter `Idempotency-Key` describes once. */
const REPLAYED = "Idempotent-Replayed";

/** The most frequent requirement, and thus the document's own: a session that may change something. */
const USUAL_SECURITY: Json[] = [{ session: [], csrf: [] }];

/**
 * Returns the document that the API serves. The full document repeats each part where it applies. This one
 * contains each part once and under a name, and describes the errors of every call by one response. An
 * operation without `security` has the document's, and one without `x-roles` is open to every role. Paths of
 * any length are left out, because OpenAPI cannot express them, and methods that do the same as the first.
 */
export function publishedDocument(document: Json): Json {
  const all = structuredClone(document.paths) as Record<string, Record<string, Operation>>;
  const paths = Object.fromEntries(
    Object.entries(all)
      .filter(([, methods]) => !isOfAnyLength(methods))
      .map(([path, methods]) => [path, withoutTwins(methods)]),
  );
  const placed = Object.entries(paths).flatMap(([path, methods]) =>
    Object.values(methods).map((operation) => ({ path, operation })),
  );
  const links = placed.map((each) => linksOf(each, placed));
  for (const [place, { operation }] of placed.entries()) {
    operation.parameters = operation.parameters
      .filter(({ name }) => name !== EVERYWHERE && !ACTS_FOR.test(String(name)))
      .map(({ required, example: _, ...parameter }) =>
        required === true ? { required, ...parameter } : parameter,
      );
    operation.responses = published(operation.responses);
    describeSuccess(operation, links[place] ?? {});
    for (const media of Object.values(operation.requestBody?.content ?? {})) {
      media.schema = withoutUnions(media.schema);
    }
    if (operation.requestBody?.required === false) delete operation.requestBody.required;
  }
  const { headers: _, ...given } = document.components as Json;
  const operations = placed.map(({ operation }) => operation);
  dropExamples(operations);
  const components = { ...given, ...shareComponents(operations, { [ERROR]: error }) };
  const short = Object.entries(paths).map(([path, methods]) => [path, shareParameters(methods)]);
  const { paths: _paths, components: _components, ...head } = document;
  return { ...head, security: USUAL_SECURITY, paths: Object.fromEntries(short), components };
}

function isOfAnyLength(methods: Record<string, Operation>): boolean {
  return Object.values(methods).some(({ parameters }) => parameters.some((each) => each[REST] === true));
}

/** Returns the operations of a path without those that differ from the first only in their method. */
function withoutTwins(methods: Record<string, Operation>): Record<string, Operation> {
  const nameless = ({ operationId: _, ...operation }: Operation) => operation;
  const [first, ...others] = Object.entries(methods);
  if (first === undefined) return methods;
  const different = others.filter(([, one]) => !isDeepStrictEqual(nameless(one), nameless(first[1])));
  return Object.fromEntries([first, ...different]);
}

/**
 * Keeps one example of each operation: that of its request, or that of its response. A decision is always
 * shown, because a client acts on it. Of equal examples of responses, keeps the first.
 */
function dropExamples(operations: readonly Operation[]): void {
  const seen = new Set<string>();
  for (const { requestBody, responses } of operations) {
    const isShown = Object.values(requestBody?.content ?? {}).some(({ example }) => example !== undefined);
    for (const media of Object.values(responses).flatMap(({ content }) => Object.values(content ?? {}))) {
      const text = JSON.stringify(media.example);
      if (seen.has(text) || (isShown && !isDecision(media.example))) delete media.example;
      else seen.add(text);
    }
  }
  shareExamples(operations.flatMap(({ responses }) => Object.values(responses)));
}

/** Gives responses that differ only in their example the same one, so that they become one component. */
function shareExamples(responses: readonly Response[]): void {
  const alike = Map.groupBy(responses, ({ content, ...rest }) =>
    JSON.stringify([rest, Object.entries(content ?? {}).map(([type, { schema }]) => [type, schema])]),
  );
  for (const group of alike.values()) {
    const content = group.map((each) => each.content).find((body) => body?.["application/json"]?.example);
    if (content === undefined) continue;
    for (const response of group) response.content = structuredClone(content);
  }
}

function isDecision(example: unknown): boolean {
  return typeof example === "object" && example !== null && "decision" in example;
}

/** Returns an operation without the parts that the document states once for all operations. */
function withoutUsual({ security, "x-roles": roles, ...rest }: Json): Json {
  return {
    ...rest,
    ...(isDeepStrictEqual(security, USUAL_SECURITY) ? {} : { security }),
    ...(roles === undefined || isDeepStrictEqual(roles, memberRoles) ? {} : { "x-roles": roles }),
  };
}

/** Moves the parameters that all operations of a path have to the path, if it has several operations. */
function shareParameters(methods: Record<string, Operation>): Json {
  const [first, ...others] = Object.values(methods).map(({ parameters }) => parameters);
  const isIn = (all: readonly Json[], one: Json) => all.some((each) => isDeepStrictEqual(each, one));
  const common = (first ?? []).filter((one) => others.length > 0 && others.every((all) => isIn(all, one)));
  const own = ({ parameters, ...rest }: Operation) =>
    withParameters(
      withoutUsual(rest),
      parameters.filter((each) => !isIn(common, each)),
    );
  const short = Object.entries(methods).map(([method, operation]) => [method, own(operation)]);
  return withParameters(Object.fromEntries(short), common);
}

function withParameters(owner: Json, parameters: readonly Json[]): Json {
  return parameters.length === 0 ? owner : { ...owner, parameters };
}

/**
 * Describes an operation by the description of its successful response, and adds the links of this response.
 * The response keeps only the name of its status, so that operations share equal responses.
 */
function describeSuccess(operation: Operation, links: Record<string, Json>): void {
  const [success = ""] = Object.entries(operation.responses).find(([status]) => status < "400") ?? [];
  const response = operation.responses[success];
  if (response === undefined) return;
  operation.description = response.description;
  response.description = STATUS_CODES[success] ?? "Success";
  if (Object.keys(links).length > 0) response.links = links;
}

/**
 * Error codes that the default response describes. They are those of every route, of malformed calls, of
 * missing credentials, of callers whose role does not allow the call, of ids that name nothing, and of keys
 * that were used for another call. A response with further codes lists only these.
 */
export const DEFAULT_CODES: readonly string[] = [
  ...EVERY_ROUTE,
  ...[
    "auth_required",
    "invalid_api_key",
    "csrf_failed",
    "onboarding_incomplete",
    "forbidden",
    "key_not_allowed",
    "not_found",
    "idempotency_conflict",
  ],
];

const [status, message] = errorCodes.not_found;
const { title: _, ...anyError } = errorSchema();

/** The one schema of all errors. Responses list their codes in `x-error-codes`. */
const error: Json = {
  ...openSchema(anyError),
  examples: [{ error: { code: "not_found", message, status } }],
};

/**
 * Returns an operation's responses without those that every call can have. If no refusal would remain, keeps
 * the refusal of a malformed request.
 */
function published(responses: Operation["responses"]): Operation["responses"] {
  const all = Object.entries(responses);
  const own = all.filter(([, response]) => !isOfAnyCall(response));
  const kept = own.some(([status]) => status.startsWith("4"))
    ? own
    : all.filter(([status, each]) => status === "400" || !isOfAnyCall(each));
  return {
    ...Object.fromEntries(kept.map(([status, each]) => [status, compact(each, status)])),
    default: anyCall(),
  };
}

function isOfAnyCall({ content, "x-error-codes": codes = [] }: Response): boolean {
  const isError = Object.values(content ?? {}).every(({ schema }) => schema.title === ERROR);
  return codes.length > 0 && isError && codes.every((code) => DEFAULT_CODES.includes(code));
}

function compact(response: Response, status: string): Response {
  const { headers: { [EVERYWHERE]: _, [REPLAYED]: _replayed, ...headers } = {}, content, ...rest } = response;
  const named = Object.keys(headers).length > 0 ? { headers } : {};
  if (content === undefined) return { ...rest, ...named };
  const isError = Object.values(content).every(({ schema }) => schema.title === ERROR);
  const media = Object.entries(content).map(([type, { schema, example }]) => [
    type,
    isError
      ? { schema: error }
      : {
          schema: withError(withoutUnions(openSchema(schema))),
          ...(!isLeftOut(example) && { example: shortExample(example, schema) }),
        },
  ]);
  const codes = response["x-error-codes"];
  const own = codes?.filter((code) => !DEFAULT_CODES.includes(code));
  return {
    ...rest,
    ...(codes !== undefined && { "x-error-codes": own?.length ? own : codes }),
    // The list of codes is in `x-error-codes`, and the full description on the page `/docs`.
    description: isError ? (STATUS_CODES[status] ?? "Error") : response.description,
    ...named,
    content: Object.fromEntries(media),
  };
}

/**
 * Lists have no example, because it would repeat that of one object, and errors of OAuth have none, because
 * they are all alike. The page `/docs` shows them.
 */
function isLeftOut(example: unknown): boolean {
  if (typeof example !== "object" || example === null) return false;
  return "next_cursor" in example || "error_description" in example;
}

/** Returns an example without optional members, except in decisions, because a client acts on these. */
function shortExample(example: unknown, { required, properties }: Json): unknown {
  if (properties === undefined || !Array.isArray(required) || isDecision(example)) return example;
  return Object.fromEntries(Object.entries(example as Json).filter(([name]) => required.includes(name)));
}

function withError(schema: Json): Json {
  if (!Array.isArray(schema.anyOf)) return schema;
  return { ...schema, anyOf: schema.anyOf.map((form: Json) => (form.title === ERROR ? error : form)) };
}

/** Returns the response of calls that were refused or failed for a reason that most calls can have. */
function anyCall(): Response {
  const description = "Whole seconds after which the call may be repeated; with 429 and 503";
  return {
    description:
      "Errors of any call: 400 for a malformed call, 401 without a valid session or API key, 403 for people whose role is not in `x-roles`, and for API keys whose role is neither `full` nor in `x-key-roles`, 404 for an id that names nothing of the caller's, and 409 for the `Idempotency-Key` of another call",
    headers: { "Retry-After": { description, schema: { type: "string", pattern: "^[0-9]+$" } } },
    content: { "application/json": { schema: error } },
    "x-error-codes": [...DEFAULT_CODES],
  };
}
