import type { Json } from "./schema.ts";
import { withParts } from "./schema_parts.ts";

/** Chooses the name of an object schema. `suggestion` names the place where the schema occurs. */
export type ChooseName = (suggestion: string, schema: Json) => string;

/**
 * Returns the schema with a reference in place of each object schema and of each string or map that `choose`
 * names otherwise than its place, and adds these schemas to `named`. Throws if two different schemas have the
 * same name. Descriptions do not count: a reference has its own description.
 */
export function nameSchemas(
  schema: Json,
  suggestion: string,
  choose: ChooseName,
  named: Map<string, Json>,
): Json {
  const name = choose(suggestion, schema);
  const inner = withParts(schema, (part, member) => nameSchemas(part, `${name}${member}`, choose, named));
  const isObject = inner.type === "object" && inner.properties !== undefined;
  const isValue = !isObject && (inner.type === "string" || inner.type === "object") && name !== suggestion;
  if (!isObject && !isValue) return inner;
  const { description, ...form } = inner;
  const known = named.get(name) ?? (isObject ? inner : form);
  if (formOf(known) !== formOf(inner)) {
    throw new Error(`Two different schemas of the OpenAPI document are named ${name}`);
  }
  named.set(name, known);
  const $ref = `#/components/schemas/${name}`;
  return description === undefined || description === known.description ? { $ref } : { $ref, description };
}

/** Returns a text that is equal for schemas that differ only in their description. */
export function formOf({ description: _, ...form }: Json): string {
  return JSON.stringify(form);
}
