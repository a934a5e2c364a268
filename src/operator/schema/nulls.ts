import type { StructuralSchema } from "./definition.ts";

/**
 * The value without the members that are null, as the API server stores it. Members of lists and unknown
 * fields stay.
 */
export function withoutNulls(schema: StructuralSchema, value: unknown): unknown {
  const { items, properties } = schema;
  if (Array.isArray(value)) {
    return items === undefined ? value : value.map((item) => withoutNulls(items, item));
  }
  if (typeof value !== "object" || value === null) return value;
  if (properties === undefined) return value;
  const kept = Object.entries(value).filter(
    ([name, member]) => member !== null || !Object.hasOwn(properties, name),
  );
  return Object.fromEntries(
    kept.map(([name, member]) => {
      const child = properties[name];
      return [name, child === undefined ? member : withoutNulls(child, member)];
    }),
  );
}
