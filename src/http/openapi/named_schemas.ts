import type { Json } from "./schema.ts";
import { withParts } from "./schema_parts.ts";

/** Chooses the name of an object schema. `suggestion` names the place where the schema occurs. */
export type ChooseName = (suggestion: string, schema: Json) => string;

/**
 * Returns the schema with a reference in place of each object schema, and adds these object schemas to
 * `named`. Throws if two different schemas have the same name. Descriptions do not count: a reference has its
 * own description.
 */
export function nameSchemas(
  schema: Json,
  suggestion: string,
  choose: ChooseName,
  named: Map<string, Json>,
): Json {
  const name = choose(suggestion, schema);
  const inner = withParts(schema, (part, member) => nameSchemas(part, `${name}${member}`, choose, named));
  if (inner.type !== "object" || inner.properties === undefined) return inner;
  const known = named.get(name) ?? inner;
  if (formOf(known) !== formOf(inner)) {
    throw new Error(`Two different schemas of the OpenAPI document are named ${name}`);
  }
  named.set(name, known);
  const $ref = `#/components/schemas/${name}`;
  const { description } = inner;
  return description === undefined || description === known.description ? { $ref } : { $ref, description };
}

/** Returns a text that is equal for schemas that differ only in their description. */
export function formOf({ description: _, ...form }: Json): string {
  return JSON.stringify(form);
}
