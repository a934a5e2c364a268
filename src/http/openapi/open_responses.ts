import type { Json } from "./schema.ts";
import { withParts } from "./schema_parts.ts";

/**
 * Returns a schema of responses without the promise that nothing is ever added. Objects may have further
 * members. A list of values is only the list of known values, `x-extensible-enum`.
 *
 * Objects have `additionalProperties: true`. Without it, some generators create clients that refuse members
 * that they do not know.
 */
export function openSchema(schema: Json): Json {
  const { additionalProperties, enum: values, const: value, ...rest } = schema;
  const known = values ?? (value === undefined ? undefined : [value]);
  const open = withParts(rest, openSchema);
  if (known !== undefined) open["x-extensible-enum"] = known;
  if (rest.properties !== undefined) return { ...open, additionalProperties: true };
  if (typeof additionalProperties !== "object") {
    return additionalProperties === undefined ? open : { ...open, additionalProperties };
  }
  return { ...open, additionalProperties: openSchema(additionalProperties as Json) };
}

/**
 * Returns a schema without types that generators cannot express: a value of several types, or only null. The
 * description says what such a value may be. A text or number that may be null has two types instead of two
 * alternatives.
 */
export function withoutUnions(schema: Json): Json {
  const { type, anyOf, ...rest } = withParts(schema, withoutUnions);
  const types = [type].flat().filter((each) => each !== "null");
  const forms = ((anyOf ?? []) as Json[]).filter((form) => form.type !== "null");
  const isUnion = types.length > 1 || new Set(forms.map((form) => form.type)).size > 1;
  if (type === "null" || isUnion) return rest;
  const [form = {}] = forms;
  if (anyOf !== undefined && forms.length === 1 && isPlain(form)) {
    return { ...form, type: [form.type, "null"], ...rest };
  }
  return { ...(type !== undefined && { type }), ...rest, ...(anyOf !== undefined && { anyOf }) };
}

function isPlain({ type, enum: values, const: value }: Json): boolean {
  return (
    ["string", "integer", "number"].includes(String(type)) && values === undefined && value === undefined
  );
}
