import { type ChooseName, formOf, nameSchemas } from "./named_schemas.ts";
import type { Json } from "./schema.ts";
import { SCHEMA_NAMES } from "./schema_names.ts";
import { pascalCase } from "./schema_parts.ts";

export type Body = { content?: Record<string, { schema: Json; example?: unknown }> };
export type Response = Body & {
  description: string;
  headers?: Record<string, Json>;
  links?: Record<string, Json>;
  "x-error-codes"?: string[];
};
/** One operation of the document. */
export type Operation = {
  operationId: string;
  description?: string;
  parameters: Json[];
  requestBody?: Body & { required?: boolean };
  responses: Record<string, Response>;
};

/** A part of the document that may become a component. `put` replaces it. */
type Part = { name: string; value: Json; put(reference: Json): void };

/**
 * Replaces object schemas and repeated parts of operations by references to components, and returns these
 * components. Each object schema becomes a component, and those in `given` have their name there. A
 * parameter, header or response becomes a component if it occurs at least twice.
 */
export function shareComponents(operations: readonly Operation[], given: Record<string, Json>): Json {
  return {
    schemas: nameAll(operations, given),
    headers: shared("headers", operations.flatMap(headersOf)),
    parameters: shared("parameters", operations.flatMap(parametersOf)),
    links: shared("links", operations.flatMap(linkParts)),
    responses: shared("responses", operations.flatMap(responsesOf)),
  };
}

function nameAll(operations: readonly Operation[], given: Record<string, Json>): Json {
  const names = new Map(Object.entries(given).map(([name, schema]) => [formOf(schema), name]));
  const choosePlace: ChooseName = (suggestion, schema) => {
    const name = SCHEMA_NAMES[suggestion];
    if (name !== undefined) names.set(formOf(schema), name);
    return name ?? suggestion;
  };
  for (const { schema, suggestion } of operations.flatMap(schemasOf)) {
    nameSchemas(schema, suggestion, choosePlace, new Map());
  }
  const named = new Map<string, Json>();
  const choose: ChooseName = (suggestion, schema) =>
    SCHEMA_NAMES[suggestion] ?? names.get(formOf(schema)) ?? suggestion;
  for (const { schema, suggestion, media } of operations.flatMap(schemasOf)) {
    media.schema = nameSchemas(schema, suggestion, choose, named);
  }
  for (const parameter of operations.flatMap(({ parameters }) => parameters)) {
    parameter.schema = nameSchemas(parameter.schema as Json, "", choose, named);
  }
  shareDescriptions(operations, named);
  return sorted([...named]);
}

/** Moves the description of a string or map from its references to the component, if all have the same. */
function shareDescriptions(operations: readonly Operation[], named: ReadonlyMap<string, Json>): void {
  const places = new Map<unknown, Json[]>();
  const visit = (part: unknown): void => {
    if (typeof part !== "object" || part === null) return;
    const { $ref } = part as Json;
    if (typeof $ref === "string") places.set($ref, [...(places.get($ref) ?? []), part as Json]);
    for (const member of Object.values(part)) visit(member);
  };
  visit([operations, ...named.values()]);
  for (const [name, schema] of named) {
    const references = places.get(`#/components/schemas/${name}`) ?? [];
    const [description, ...others] = new Set(references.map((reference) => reference.description));
    if (schema.properties !== undefined || description === undefined || others.length > 0) continue;
    schema.description = description;
    for (const reference of references) delete reference.description;
  }
}

function schemasOf({ operationId, requestBody, responses }: Operation) {
  const name = pascalCase(operationId);
  const found = (body: Body | undefined, suggestion: string) =>
    Object.values(body?.content ?? {}).map((media) => ({ media, schema: media.schema, suggestion }));
  const answers = Object.entries(responses).flatMap(([status, response]) =>
    found(response, `${name}Answer${status < "300" ? "" : status}`),
  );
  return [...found(requestBody, `${name}Body`), ...answers];
}

function headersOf({ responses }: Operation): Part[] {
  return Object.values(responses).flatMap(({ headers = {} }) =>
    Object.entries(headers).map(([name, value]) => ({
      name: name.replaceAll("-", ""),
      value,
      put: (reference) => {
        headers[name] = reference;
      },
    })),
  );
}

function linkParts({ responses }: Operation): Part[] {
  return Object.values(responses).flatMap(({ links = {} }) =>
    Object.entries(links).map(([name, value]) => ({
      name: pascalCase(name),
      value,
      put: (reference) => {
        links[name] = reference;
      },
    })),
  );
}

function parametersOf({ parameters }: Operation): Part[] {
  return parameters.map((value, place) => ({
    name: pascalCase(String(value.name)),
    value,
    put: (reference) => {
      parameters[place] = reference;
    },
  }));
}

function responsesOf({ operationId, responses }: Operation): Part[] {
  return Object.entries(responses).map(([status, value]) => ({
    name: pascalCase(nameOf(status, value) ?? `${operationId}_${status}`),
    value,
    put: (reference) => {
      (responses as Record<string, Json>)[status] = reference;
    },
  }));
}

/** Short names of the most frequent responses. */
const FREQUENT: Readonly<Record<string, string>> = {
  invalid_request: "invalid",
  idempotency_conflict: "conflict",
};

/** Returns a short name for a response with error codes. Hundreds of references repeat it. */
function nameOf(status: string, response: Response): string | undefined {
  if (status === "default") return "error";
  const [shortest, ...others] = (response["x-error-codes"] ?? []).toSorted(
    (one, other) => one.length - other.length,
  );
  if (shortest === undefined || others.length > 0) return shortest && `${shortest}_and_${others.length}`;
  return FREQUENT[shortest] ?? shortest;
}

/** Replaces parts that occur at least twice by references, and returns the components that these refer to. */
function shared(kind: string, parts: readonly Part[]): Json {
  const components = new Map<string, Json>();
  for (const equal of Map.groupBy(parts, ({ value }) => JSON.stringify(value)).values()) {
    const [first] = equal;
    if (first === undefined || equal.length < 2 || "$ref" in first.value) continue;
    const name = freeName(first.name, components);
    components.set(name, first.value);
    for (const { put } of equal) put({ $ref: `#/components/${kind}/${name}` });
  }
  return sorted([...components]);
}

/** Returns the name, with a number if other components have it. */
function freeName(name: string, taken: ReadonlyMap<string, Json>, count = 1): string {
  const numbered = count === 1 ? name : `${name}${count}`;
  return taken.has(numbered) ? freeName(name, taken, count + 1) : numbered;
}

function sorted(entries: readonly [string, Json][]): Json {
  return Object.fromEntries([...entries].sort(([one], [other]) => (one < other ? -1 : 1)));
}
