import { type ZodType, z } from "zod";

/** A JSON object, such as a schema. */
export type Json = Record<string, unknown>;

/**
 * What a program may rely on of a value that is sent, as JSON Schema (2020-12, and draft 7 too). Members that
 * it does not name are allowed: more may be added. A member that may be any JSON says no more than its
 * description.
 */
export function openSchema(schema: ZodType): Json {
  const { $schema, $defs, ...rest } = z.toJSONSchema(schema, {
    override({ jsonSchema }) {
      if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
    },
  }) as Json;
  return JSON.parse(JSON.stringify(rest), (name, value) => (name === "$ref" ? undefined : value));
}
