import { type ZodType, z } from "zod";

/** A JSON object of the document. */
export type Json = Record<string, unknown>;

/**
 * Returns a schema as JSON Schema 2020-12, for a request (`input`) or a response (`output`). Omits patterns
 * that need a flag, because JSON Schema has no flags: `\p{Cc}` would match other characters or nothing.
 */
export function schemaOf(schema: ZodType, io: "input" | "output"): Json {
  const { $schema, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" }) as Json;
  return JSON.parse(JSON.stringify(rest), (name, value) =>
    name === "pattern" && typeof value === "string" && /\\p\{/i.test(value) ? undefined : value,
  );
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
