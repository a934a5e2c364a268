import type { Json } from "./schema.ts";

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

type Change = (part: Json, member: string) => Json;

/** Applies a change to the direct parts of a schema: its members, its items and its alternatives. */
function withParts(schema: Json, change: Change): Json {
  const changed = Object.entries(schema).map(([keyword, value]): [string, unknown] => {
    if (keyword === "properties") return [keyword, membersWith(value as Json, change)];
    if (keyword === "items") return [keyword, change(value as Json, "Item")];
    if (keyword === "anyOf" || keyword === "oneOf") {
      const forms = value as Json[];
      const objects = forms.filter(({ type }) => type === "object").length;
      return [keyword, forms.map((form) => change(form, objects > 1 ? formName(form) : ""))];
    }
    return [keyword, value];
  });
  return Object.fromEntries(changed);
}

function membersWith(members: Json, change: Change): Json {
  return Object.fromEntries(
    Object.entries(members).map(([name, member]) => [name, change(member as Json, pascalCase(name))]),
  );
}

/** Returns the constant that the first member of an alternative must have, or the name of this member. */
function formName({ properties = {} }: Json): string {
  const [[name, { const: value }] = ["", {} as Json]] = Object.entries(properties as Record<string, Json>);
  return pascalCase(typeof value === "string" ? value : name);
}

/** Returns a name such as `RevokeDelegation` for `revoke_delegation`. */
export function pascalCase(name: string): string {
  return name
    .split(/[^a-z0-9]+/i)
    .map((word) => word.slice(0, 1).toUpperCase() + word.slice(1))
    .join("");
}
