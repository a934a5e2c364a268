import type { Schema } from "./openapi_document.ts";

/** A string and a number that no refusal may repeat. */
export const MARKER = "zqsecretqz";
export const MARKED_NUMBER = "4815162342";

/** Values of every JSON type, including some that often break parsers. */
export const STRANGE: readonly unknown[] = [
  null,
  true,
  -1.5,
  1e308,
  "",
  "\u0000",
  MARKER,
  MARKER.repeat(1_000),
  Number(MARKED_NUMBER),
  [],
  [[MARKER]],
  [{ type: MARKER, [MARKER]: MARKER }],
  {},
  { constructor: { prototype: { polluted: MARKER } } },
];

export type Mutation = { what: string; body: unknown };

/**
 * Each body differs from `example` in one member, which is omitted or replaced by a strange value. Includes
 * nested members and members that the example does not show.
 */
export function mutationsOf(schema: Schema, example: unknown, depth = 3): Mutation[] {
  const places = placesIn(schema, depth);
  return places.flatMap((path) => [
    { what: `${path.join(".")} left out`, body: changed(example, path, undefined) },
    ...STRANGE.map((value) => ({
      what: `${path.join(".")} = ${JSON.stringify(value).slice(0, 40)}`,
      body: changed(example, path, value),
    })),
  ]);
}

function placesIn(schema: Schema, depth: number): string[][] {
  if (depth === 0) return [];
  const forms = [schema, ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  return forms.flatMap(({ properties = {} }) =>
    Object.entries(properties).flatMap(([name, member]) => [
      [name],
      ...placesIn(member, depth - 1).map((rest) => [name, ...rest]),
    ]),
  );
}

function changed(value: unknown, [name = "", ...rest]: string[], to: unknown): unknown {
  const object = typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
  const { [name]: old, ...others } = object as Record<string, unknown>;
  if (rest.length > 0) return { ...others, [name]: changed(old, rest, to) };
  return to === undefined ? others : { ...others, [name]: to };
}
