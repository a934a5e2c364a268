import { type ZodType, z } from "zod";

/** A JSON object of the document. */
export type Json = Record<string, unknown>;

/**
 * Returns a schema as JSON Schema 2020-12, for a request (`input`) or a response (`output`), without keywords
 * that generators of clients cannot use:
 *
 * - patterns that need a flag, because JSON Schema has no flags: `\p{Cc}` would match other characters
 * - patterns beside a format
 * - limits of every safe integer; the format `int64` says that an integer may need more than 32 bits
 */
export function schemaOf(schema: ZodType, io: "input" | "output"): Json {
  const { $schema, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    override: ({ jsonSchema }) => simplify(jsonSchema),
  });
  return JSON.parse(JSON.stringify(rest));
}

function simplify(schema: z.core.JSONSchema.BaseSchema): void {
  const { pattern = "", format, propertyNames } = schema;
  if (/\\p\{/i.test(pattern) || format !== undefined) delete schema.pattern;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  if (schema.type === "integer") schema.format ??= "int64";
  // JSON has no other names than texts.
  if (JSON.stringify(propertyNames) === '{"type":"string"}') delete schema.propertyNames;
}

/** One member of an object schema. */
export type Member = { name: string; schema: Json; required: boolean };

/** Returns the members of a request object, with their default values. */
export function membersOf(schema: ZodType | undefined): Member[] {
  if (schema === undefined) return [];
  const { properties = {}, required = [] } = schemaOf(schema, "input") as {
    properties?: Record<string, Json>;
    required?: string[];
  };
  const defaults = (schema.safeParse({}).data ?? {}) as Json;
  return Object.entries(properties).map(([name, member]) => ({
    name,
    schema: defaults[name] === undefined ? member : { ...member, default: defaults[name] },
    required: required.includes(name),
  }));
}
