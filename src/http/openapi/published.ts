import { errorCodes } from "../../errors.ts";
import { type Operation, type Response, shareComponents } from "./components.ts";
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
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
  for (const operation of operations) {
    operation.parameters = operation.parameters.filter(({ name }) => name !== EVERYWHERE);
    operation.responses = published(operation.responses);
  }
  const { headers: _, ...given } = document.components as Json;
  return { ...document, paths, components: { ...given, ...shareComponents(operations, { [ERROR]: error }) } };
}

const [status, message] = errorCodes.not_found;
const { title: _, ...anyError } = errorSchema();

/** The one schema of all errors. Responses list their codes in `x-error-codes`. */
const error: Json = {
  ...anyError,
  examples: [{ error: { code: "not_found", message, status } }],
};

function published(responses: Operation["responses"]): Operation["responses"] {
  const own = Object.entries(responses).filter(([, response]) => !isOfAnyCall(response));
  return { ...Object.fromEntries(own.map(([status, each]) => [status, compact(each)])), default: anyCall() };
}

function isOfAnyCall({ content, "x-error-codes": codes = [] }: Response): boolean {
  const any: readonly string[] = ANY_CALL;
  const isError = Object.values(content ?? {}).every(({ schema }) => schema.title === ERROR);
  return codes.length > 0 && isError && codes.every((code) => any.includes(code));
}

function compact(response: Response): Response {
  const {
    headers: { [EVERYWHERE]: _, ...headers },
    content,
    ...rest
  } = response;
  if (content === undefined) return { ...rest, headers };
  const isError = Object.values(content).every(({ schema }) => schema.title === ERROR);
  const media = Object.entries(content).map(([type, { schema, example }]) => [
    type,
    isError ? { schema: error } : { schema: withError(schema), example },
  ]);
  const { "x-error-codes": codes = [], description } = response;
  return {
    ...rest,
    description: isError ? codesIn(codes) : description,
    headers,
    content: Object.fromEntries(media),
  };
}

function withError(schema: Json): Json {
  if (!Array.isArray(schema.anyOf)) return schema;
  return { ...schema, anyOf: schema.anyOf.map((form: Json) => (form.title === ERROR ? error : form)) };
}

/** Returns the codes without their meanings. The schema of errors describes all codes. */
function codesIn(codes: readonly string[]): string {
  return codes.map((code) => `\`${code}\``).join(", ");
}

/** Returns the response of calls that were refused or failed for a reason that any call can have. */
function anyCall(): Response {
  const description = "Whole seconds after which the call may be repeated; with 429 and 503";
  return {
    description: `${codesIn(ANY_CALL)}. Any call can return these errors`,
    headers: { "Retry-After": { description, schema: { type: "string", pattern: "^[0-9]+$" } } },
    content: { "application/json": { schema: error } },
    "x-error-codes": [...ANY_CALL],
  };
}
