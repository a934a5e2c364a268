import { type ZodType, z } from "zod";

/** A JSON object of the document. */
export type Json = Record<string, unknown>;

/**
 * A schema as JSON Schema 2020-12: of what is sent (`input`) or what is answered (`output`). A pattern that
 * needs a flag is left out, since none goes with it: without, `\p{Cc}` means other text, and to some readers
 * none at all.
 */
export function schemaOf(schema: ZodType, io: "input" | "output"): Json {
  const { $schema, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" }) as Json;
  return JSON.parse(JSON.stringify(rest), (name, value) =>
    name === "pattern" && typeof value === "string" && /\\p\{/i.test(value) ? undefined : value,
  );
}

/** A member of an object's schema. */
export type Member = { name: string; schema: Json; required: boolean };

/** The members of an object as it is sent, with the defaults of those left out. */
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
