import {
  accepts,
  box,
  type Changes,
  circle,
  constrained,
  letters,
  path,
  platform,
  refuses,
  type SchemaCase,
} from "./manifests.ts";

const LARGEST_WHOLE = 9_007_199_254_740_991;
const polygon = (corners: number): Changes => ({
  type: "geo_polygon",
  points: Array.from({ length: corners }, (_, index) => [index / 10, index / 10]),
});

/** Returns a Platform with this number of scopes, each of this length, for principals with 64 scopes each. */
const accepting = (count: number, length: number): ReturnType<typeof platform> => {
  const scopes = Array.from(
    { length: count },
    (_, index) => `data:${letters(length - 9)}${1_000 + (index % 64)}`,
  );
  const acceptedPrincipals = Array.from({ length: Math.ceil(count / 64) }, (_, index) => ({
    humanID: index.toString(16).padStart(32, "0"),
    scopes: scopes.slice(index * 64, (index + 1) * 64),
  }));
  return platform({ acceptedPrincipals });
};

export const bounds: SchemaCase[] = [
  accepts("8,192 scopes of principals with 131,072 characters in total", accepting(8_192, 16)),
  refuses("8,193 scopes of principals", accepting(8_193, 15)),
  refuses("scopes of principals with 131,076 characters in total", accepting(3_972, 33)),
  accepts("scopes of principals with 131,043 characters in total", accepting(3_971, 33)),
  accepts(
    "polygons with 1,024 corners in total",
    constrained(...Array.from({ length: 4 }, () => polygon(256))),
  ),
  refuses(
    "polygons with 1,025 corners in total",
    constrained(...Array.from({ length: 4 }, () => polygon(255)), polygon(5)),
  ),
  accepts("a polygon of 256 corners", constrained(polygon(256))),
  refuses("a polygon of 257 corners", constrained(polygon(257))),
  accepts(
    "resources and paths with 8,192 characters in total",
    constrained(
      ...Array.from({ length: 16 }, () => ({
        ...path,
        resource_id: "é".repeat(256),
        path_prefix: `/${letters(255)}`,
      })),
    ),
  ),
  refuses(
    "resources and paths with 8,193 characters in total",
    constrained(
      ...Array.from({ length: 16 }, () => ({
        ...path,
        resource_id: "é".repeat(256),
        path_prefix: `/${letters(255)}`,
      })),
      { ...path, resource_id: "a" },
    ),
  ),
  accepts("a resource of 512 bytes", constrained({ ...path, resource_id: "é".repeat(256) })),
  refuses("a resource of 513 bytes", constrained({ ...path, resource_id: `${"é".repeat(256)}a` })),
  accepts("a rate over a year", constrained({ type: "max_rate", count: 1, window_s: 31_536_000 })),
  refuses("a rate over more than a year", constrained({ type: "max_rate", count: 1, window_s: 31_536_001 })),
  ...[
    ["radius_m", circle],
    ["max_mps", { type: "max_speed_mps" }],
    ["max_amount", { type: "max_amount", currency: "EUR" }],
    ["max_alt_m", box],
  ].flatMap(([field, rest]) => [
    accepts(`the largest ${field}`, constrained({ ...(rest as Changes), [field as string]: LARGEST_WHOLE })),
    refuses(
      `a ${field} of which the wire format has no form`,
      constrained({ ...(rest as Changes), [field as string]: LARGEST_WHOLE + 1 }),
    ),
  ]),
  accepts("the lowest altitude", constrained({ ...box, min_alt_m: -LARGEST_WHOLE })),
  refuses("an altitude below the lowest", constrained({ ...box, min_alt_m: -LARGEST_WHOLE - 1 })),
];
