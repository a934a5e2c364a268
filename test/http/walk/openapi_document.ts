import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

/** A JSON Schema in the document. */
export type Schema = {
  type?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  [keyword: string]: unknown;
};

export type Parameter = {
  name: string;
  in: "path" | "query" | "header";
  required: boolean;
  schema: Schema;
  example?: unknown;
};

type Response = {
  headers?: Record<string, { required?: boolean; schema?: Schema; $ref?: string }>;
  content?: Record<string, { schema: Schema; example: unknown }>;
  "x-error-codes"?: string[];
};

/** One operation in the document, with its method and path. */
export type Operation = {
  operationId: string;
  method: string;
  path: string;
  summary: string;
  tags: string[];
  security: Record<string, unknown>[];
  parameters: Parameter[];
  requestBody?: { required: boolean; content: Record<string, { schema: Schema; example: unknown }> };
  responses: Record<string, Response>;
};

/** A response as a caller receives it. */
export type SeenAnswer = { status: number; headers: Headers; text: string };

/** The published document, with functions that check responses against it. */
export type OpenApiDocument = {
  document: Record<string, unknown>;
  operations: Operation[];
  operation(id: string): Operation;
  violations(operation: Operation, answer: SeenAnswer): string[];
  fits(schema: Schema, value: unknown): boolean;
};

const SECURITY_HEADERS = {
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
};

/** Headers that an operation must declare if a response has them. */
const TELLING =
  /^(etag|retry-after|set-cookie|location|allow|www-authenticate|idempotent-replayed|x-service-.*)$/;

export function readOpenApiDocument(document: Record<string, unknown>): OpenApiDocument {
  const paths = document.paths as Record<string, Record<string, Omit<Operation, "method" | "path">>>;
  const components = document.components as { headers: Record<string, Response["headers"]> };
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, each]) => ({ ...each, path, method: method.toUpperCase() })),
  );
  const ajv = addFormats.default(
    new Ajv2020({
      strict: false,
      allErrors: true,
      code: { optimize: false },
      schemas: { shared: { components } },
    }),
  );
  const compiled = new Map<string, ValidateFunction>();
  /** Most operations refuse calls with equal schemas, and compiling one takes longer than many checks. */
  const validatorOf = (schema: Schema): ValidateFunction => {
    const text = JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"shared#/');
    const known = compiled.get(text) ?? ajv.compile(JSON.parse(text));
    compiled.set(text, known);
    return known;
  };

  function headerFaults(response: Response, headers: Headers): string[] {
    const named = new Set(Object.keys(response.headers ?? {}).map((name) => name.toLowerCase()));
    const strange = [...new Set(headers.keys())].filter((name) => TELLING.test(name) && !named.has(name));
    const declaredFaults = Object.entries(response.headers ?? {}).flatMap(([name, declared]) => {
      const { required = false, schema } = resolve(declared);
      const value = headers.get(name);
      if (value === null) return required ? [`${name}: is missing`] : [];
      return schema === undefined || validatorOf(schema)(value) ? [] : [`${name}: ${value}`];
    });
    return [...declaredFaults, ...strange.map((name) => `${name}: is not declared`)];
  }

  function resolve(header: NonNullable<Response["headers"]>[string]) {
    const name = header.$ref?.split("/").at(-1);
    return name === undefined
      ? header
      : (components.headers[name] as { required?: boolean; schema?: Schema });
  }

  function bodyFaults(response: Response, { headers, text }: SeenAnswer): string[] {
    const declared = response.content?.["application/json"];
    if (declared === undefined) return text === "" ? [] : ["a body that is not declared"];
    if (headers.get("content-type") !== "application/json; charset=utf-8") {
      return [`content-type: ${headers.get("content-type")}`];
    }
    const fits = validatorOf(declared.schema);
    return fits(JSON.parse(text)) ? [] : [`body: ${ajv.errorsText(fits.errors)} in ${text.slice(0, 300)}`];
  }

  return {
    document,
    operations,
    operation(id) {
      const found = operations.find(({ operationId }) => operationId === id);
      if (found === undefined) throw new Error(`The document has no operation ${id}`);
      return found;
    },
    violations(operation, answer) {
      const response = operation.responses[answer.status];
      if (response === undefined) {
        return [`status ${answer.status} is not declared: ${answer.text.slice(0, 300)}`];
      }
      const common = Object.entries(SECURITY_HEADERS).flatMap(([name, value]) =>
        answer.headers.get(name) === value ? [] : [`${name}: ${answer.headers.get(name)}`],
      );
      return [...common, ...headerFaults(response, answer.headers), ...bodyFaults(response, answer)];
    },
    fits: (schema, value) => validatorOf(schema)(value) === true,
  };
}
