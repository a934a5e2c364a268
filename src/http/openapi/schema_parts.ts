import type { Json } from "./schema.ts";

/** Changes a part of a schema. `member` is a suggestion for the part's name within the schema's name. */
type Change = (part: Json, member: string) => Json;

/** Applies a change to the direct parts of a schema: its members, items, values and alternatives but null. */
export function withParts(schema: Json, change: Change): Json {
  const changed = Object.entries(schema).map(([keyword, part]): [string, unknown] => {
    if (keyword === "properties") return [keyword, membersWith(part as Json, change)];
    if (keyword === "items") return [keyword, change(part as Json, "Item")];
    if (keyword === "additionalProperties" && typeof part === "object") {
      return [keyword, change(part as Json, "Value")];
    }
    return [keyword, keyword === "anyOf" || keyword === "oneOf" ? formsWith(part as Json[], change) : part];
  });
  return Object.fromEntries(changed);
}

function membersWith(members: Json, change: Change): Json {
  return Object.fromEntries(
    Object.entries(members).map(([name, member]) => [name, change(member as Json, pascalCase(name))]),
  );
}

function formsWith(forms: readonly Json[], change: Change): Json[] {
  const objects = forms.filter(({ type }) => type === "object").length;
  return forms.map((form) => (form.type === "null" ? form : change(form, objects > 1 ? formName(form) : "")));
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
