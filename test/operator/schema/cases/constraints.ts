import { accepts, box, circle, constrained, path, refuses, type SchemaCase } from "./manifests.ts";

export const constraints: SchemaCase[] = [
  accepts(
    "one constraint of every type",
    constrained(
      circle,
      {
        type: "geo_polygon",
        points: [
          [0, 0],
          [0, 1.5],
          [1, 1],
        ],
      },
      { ...box, min_alt_m: 0, max_alt_m: 120 },
      { type: "time_window", start: "09:00", end: "17:30", tz: "Europe/Zurich" },
      { type: "max_speed_mps", max_mps: 1.5 },
      { type: "max_amount", max_amount: 250, currency: "EUR" },
      { type: "max_rate", count: 10, window_s: 60 },
      { ...path, path_prefix: "/src" },
    ),
  ),
  refuses("a constraint without a type", constrained({ max_mps: 3 })),
  refuses("a constraint of an unknown type", constrained({ type: "moon_phase" })),
  refuses("a circle without a radius", constrained({ ...circle, radius_m: undefined })),
  refuses("a circle with a speed", constrained({ ...circle, max_mps: 3 })),
  refuses("a latitude of 91", constrained({ ...circle, lat: 91 })),
  accepts("a circle at the pole", constrained({ ...circle, lat: -90 })),
  refuses(
    "a polygon of two points",
    constrained({
      type: "geo_polygon",
      points: [
        [0, 0],
        [0, 1],
      ],
    }),
  ),
  refuses(
    "a point of three numbers",
    constrained({
      type: "geo_polygon",
      points: [
        [0, 0, 0],
        [0, 1],
        [1, 1],
      ],
    }),
  ),
  refuses(
    "a point whose latitude is 91",
    constrained({
      type: "geo_polygon",
      points: [
        [91, 0],
        [0, 1],
        [1, 1],
      ],
    }),
  ),
  accepts(
    "a point whose longitude is 180",
    constrained({
      type: "geo_polygon",
      points: [
        [90, 180],
        [0, 1],
        [1, 1],
      ],
    }),
  ),
  refuses("a box without a corner", constrained({ ...box, max_lon: undefined })),
  refuses("an altitude without a box", constrained({ ...circle, min_alt_m: 3 })),
  refuses(
    "a window from 25:00",
    constrained({ type: "time_window", start: "25:00", end: "17:00", tz: "UTC" }),
  ),
  refuses("a window without a time zone", constrained({ type: "time_window", start: "09:00", end: "17:00" })),
  refuses("a negative amount", constrained({ type: "max_amount", max_amount: -1, currency: "EUR" })),
  refuses("an amount without a currency", constrained({ type: "max_amount", max_amount: 1 })),
  refuses("a rate of 0", constrained({ type: "max_rate", count: 0, window_s: 60 })),
  refuses("a rate with a fraction", constrained({ type: "max_rate", count: 1.5, window_s: 60 })),
  refuses("a path without a resource", constrained({ type: "resource_path", path_prefix: "/src" })),
  refuses("a relative path", constrained({ ...path, path_prefix: "src" })),
  accepts("a resource of any script", constrained({ ...path, resource_id: "订单 4711/é" })),
  accepts("a path of any script", constrained({ ...path, path_prefix: "/ä b/" })),
  accepts("the path /", constrained({ ...path, path_prefix: "/" })),
  refuses("a resource with a direction mark", constrained({ ...path, resource_id: "\u202e1174-redro" })),
  refuses("a resource with a line break", constrained({ ...path, resource_id: "a\nb" })),
  refuses("a resource that ends in a space", constrained({ ...path, resource_id: "order " })),
  refuses("a path with a zero-width space", constrained({ ...path, path_prefix: "/or\u200bders" })),
  refuses("a path with a line break", constrained({ ...path, path_prefix: "/a\nb" })),
  refuses("a path with a backslash", constrained({ ...path, path_prefix: "/a\\b" })),
  accepts("32 constraints", constrained(...Array.from({ length: 32 }, () => circle))),
  refuses("33 constraints", constrained(...Array.from({ length: 33 }, () => circle))),
];
