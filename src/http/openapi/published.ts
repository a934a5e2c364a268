import { STATUS_CODES } from "node:http";
import { errorCodes } from "../../errors.ts";
import { type Operation, type Response, shareComponents } from "./components.ts";
import { linksOf } from "./links.ts";
import { openSchema, withoutUnions } from "./open_responses.ts";
import { ERROR, errorSchema } from "./responses.ts";
import { ANY_CALL } from "./route_errors.ts";
import type { Json } from "./schema.ts";

/** The header of every response and request. The description of the API names it once. */
const EVERYWHERE = "X-Request-Id";

/**
 * Returns the document that the API serves. The full document repeats each part where it applies. This one
 * contains each part once and under a name, and describes the errors of every call by one response.
 */
export function publishedDocument(document: Json): Json {
  const paths = structuredClone(document.paths) as Record<string, Record<string, Operation>>;
  const placed = Object.entries(paths).flatMap(([path, methods]) =>
    Object.values(methods).map((operation) => ({ path, operation })),
  );
  const links = placed.map((each) => linksOf(each, placed));
  for (const [place, { operation }] of placed.entries()) {
    operation.parameters = operation.parameters
      .filter(({ name }) => name !== EVERYWHERE)
      .map(({ required, ...parameter }) => (required === true ? { required, ...parameter } : parameter));
    operation.responses = published(operation.responses);
    describeSuccess(operation, links[place] ?? {});
    for (const media of Object.values(operation.requestBody?.content ?? {})) {
      media.schema = withoutUnions(media.schema);
    }
  }
  const { headers: _, ...given } = document.components as Json;
  const operations = placed.map(({ operation }) => operation);
  return { ...document, paths, components: { ...given, ...shareComponents(operations, { [ERROR]: error }) } };
}

/** Describes an operation by what it returns, and adds the links to its successful response. */
function describeSuccess(operation: Operation, links: Record<string, Json>): void {
  const [success] = Object.entries(operation.responses).find(([status]) => status < "300") ?? [];
  const response = operation.responses[success ?? ""];
  if (response === undefined) return;
  operation.description = `Returns: ${response.description}.`;
  response.description = "OK";
  if (Object.keys(links).length > 0) response.links = links;
}

const [status, message] = errorCodes.not_found;
const { title: _, ...anyError } = errorSchema();

/** The one schema of all errors. Responses list their codes in `x-error-codes`. */
const error: Json = {
  ...openSchema(anyError),
  examples: [{ error: { code: "not_found", message, status } }],
};

function published(responses: Operation["responses"]): Operation["responses"] {
  const own = Object.entries(responses).filter(([, response]) => !isOfAnyCall(response));
  return {
    ...Object.fromEntries(own.map(([status, each]) => [status, compact(each, status)])),
    default: anyCall(),
  };
}

function isOfAnyCall({ content, "x-error-codes": codes = [] }: Response): boolean {
  const any: readonly string[] = ANY_CALL;
  const isError = Object.values(content ?? {}).every(({ schema }) => schema.title === ERROR);
  return codes.length > 0 && isError && codes.every((code) => any.includes(code));
}

function compact(response: Response, status: string): Response {
  const { headers: { [EVERYWHERE]: _, ...headers } = {}, content, ...rest } = response;
  const named = Object.keys(headers).length > 0 ? { headers } : {};
  if (content === undefined) return { ...rest, ...named };
  const isError = Object.values(content).every(({ schema }) => schema.title === ERROR);
  const media = Object.entries(content).map(([type, { schema, example }]) => [
    type,
    isError ? { schema: error } : { schema: withError(withoutUnions(openSchema(schema))), example },
  ]);
  return {
    ...rest,
    // The list of codes is in `x-error-codes`, and the full description on the page `/docs`.
    description: isError ? (STATUS_CODES[status] ?? "Error") : response.description,
    ...named,
    content: Object.fromEntries(media),
  };
}

function withError(schema: Json): Json {
  if (!Array.isArray(schema.anyOf)) return schema;
  return { ...schema, anyOf: schema.anyOf.map((form: Json) => (form.title === ERROR ? error : form)) };
}

/** Returns the response of calls that were refused or failed for a reason that any call can have. */
function anyCall(): Response {
  const description = "Whole seconds after which the call may be repeated; with 429 and 503";
  return {
    description: "Errors that any call can return",
    headers: { "Retry-After": { description, schema: { type: "string", pattern: "^[0-9]+$" } } },
    content: { "application/json": { schema: error } },
    "x-error-codes": [...ANY_CALL],
  };
}
