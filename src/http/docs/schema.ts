import { type Html, html, prose } from "../../html/html.ts";

/** A JSON Schema as the OpenAPI document contains it. */
export type Schema = {
  type?: string;
  format?: string;
  description?: string;
  default?: unknown;
  const?: unknown;
  enum?: unknown[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  $ref?: string;
  [keyword: string]: unknown;
};

/** Returns a list of a schema's members, including nested ones, or `undefined` if the schema has none. */
export function membersOf(schema: Schema): Html | undefined {
  const forms = formsOf(schema);
  const lists = forms.map(listOf).filter((list) => list !== undefined);
  if (lists.length === 0) return undefined;
  return html`${lists.map((list, place) => (place === 0 ? list : html`<p class="quiet">or</p>${list}`))}`;
}

function listOf({ type, items, properties = {}, required = [] }: Schema): Html | undefined {
  if (type === "array" && items !== undefined) return membersOf(items);
  const members = Object.entries(properties);
  if (members.length === 0) return undefined;
  return html`<dl>${members.map(([name, member]) => memberOf(name, member, required.includes(name)))}</dl>`;
}

function memberOf(name: string, member: Schema, isRequired: boolean): Html {
  const inner = membersOf(member);
  return html`<dt><code>${name}</code></dt><dd>${describe(member, isRequired)}${
    inner === undefined ? undefined : html`<div class="nested">${inner}</div>`
  }</dd>`;
}

/** Returns the type and limits of a value as a phrase. */
export function describe(schema: Schema, isRequired: boolean): Html {
  const words = [typeOf(schema), ...limitsOf(schema), ...(isRequired ? [] : ["optional"])].join(", ");
  const about = schema.description === undefined ? undefined : html`. ${prose(schema.description)}`;
  return html`<span class="quiet">${words}</span>${about}`;
}

function typeOf(schema: Schema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map((word) => String(word)).join(" | ");
  const forms = formsOf(schema);
  if (forms.length > 1) return [...new Set(forms.map(typeOf))].join(" or ");
  const [one = schema] = forms;
  if (one.type === "array") return `list of ${one.items === undefined ? "anything" : typeOf(one.items)}`;
  if (one.format === "date-time") return "time";
  return one.type ?? "anything";
}

const limits: Record<string, (bound: number) => string> = {
  minimum: (bound) => `at least ${bound}`,
  maximum: (bound) => `at most ${bound}`,
  minItems: (bound) => `at least ${bound} items`,
  maxItems: (bound) => `at most ${bound} items`,
  maxLength: (bound) => `at most ${bound} characters`,
};

/** Returns phrases for a schema's limits. Omits limits of every integer, and that a string is not empty. */
function limitsOf(schema: Schema): string[] {
  const words = Object.entries(limits).flatMap(([keyword, describeLimit]) => {
    const bound = schema[keyword];
    return typeof bound === "number" && Math.abs(bound) < 2 ** 31 - 1 ? [describeLimit(bound)] : [];
  });
  return schema.default === undefined ? words : [...words, `${JSON.stringify(schema.default)} when left out`];
}

function formsOf(schema: Schema): Schema[] {
  return schema.anyOf ?? schema.oneOf ?? [schema];
}
