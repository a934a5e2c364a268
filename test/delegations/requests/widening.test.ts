import { describe, expect, test } from "vitest";
import { widens } from "../../../src/delegations/requests/judge_approval.ts";
import type { Constraint } from "../../../src/protocol/constraints/constraints.ts";

const amount = (max_amount: number, currency = "EUR") => ({ type: "max_amount", max_amount, currency });
const rate = (count: number, window_s: number) => ({ type: "max_rate", count, window_s });
const window = (start: string, end: string, tz = "UTC") => ({ type: "time_window", start, end, tz });
const circle = (lat: number, lon: number, radius_m: number) => ({ type: "geo_circle", lat, lon, radius_m });
const box = (min_lat: number, min_lon: number, max_lat: number, max_lon: number, alt?: [number, number]) => ({
  type: "geo_bbox",
  ...{ min_lat, min_lon, max_lat, max_lon },
  ...(alt && { min_alt_m: alt[0], max_alt_m: alt[1] }),
});
const path = (resource_id: string, path_prefix?: string) => ({
  type: "resource_path",
  resource_id,
  ...(path_prefix && { path_prefix }),
});
const triangle = (size: number) => ({
  type: "geo_polygon",
  points: [
    [0, 0],
    [0, size],
    [size, 0],
  ],
});

/** Pairs of a narrow constraint and a wide constraint that contains the narrow one. */
const nested: [string, object, object][] = [
  ["amounts", amount(5), amount(5.01)],
  ["speeds", { type: "max_speed_mps", max_mps: 1 }, { type: "max_speed_mps", max_mps: 2 }],
  ["rate counts", rate(5, 60), rate(6, 60)],
  ["rate windows", rate(5, 3600), rate(5, 60)],
  ["windows", window("09:00", "17:00"), window("08:00", "17:00")],
  ["windows across midnight", window("23:00", "01:00"), window("22:00", "06:00")],
  ["a window inside a window across midnight", window("01:00", "02:00"), window("22:00", "06:00")],
  ["circles", circle(52, 13, 1_000), circle(52, 13.01, 3_000)],
  ["boxes", box(1, 1, 2, 2), box(0, 0, 3, 3)],
  ["boxes across the date line", box(0, 175, 1, -175), box(0, 170, 1, -170)],
  ["a box next to the date line inside a box across it", box(0, -178, 1, -175), box(0, 170, 1, -170)],
  ["boxes with altitudes", box(0, 0, 1, 1, [10, 20]), box(0, 0, 1, 1, [0, 20])],
  ["a box with altitudes inside a box without altitudes", box(0, 0, 1, 1, [10, 20]), box(0, 0, 1, 1)],
  ["paths", path("a", "/x/y"), path("a", "/x")],
  ["a path inside a whole resource", path("a", "/x/"), path("a")],
];

const apart: [string, object, object][] = [
  ["two currencies", amount(5), amount(6, "USD")],
  ["more uses in a longer window", rate(5, 60), rate(6, 61)],
  ["overlapping windows", window("09:00", "17:00"), window("12:00", "18:00")],
  ["windows in two time zones", window("09:00", "17:00"), window("08:00", "18:00", "Europe/Berlin")],
  ["a window and most of the rest of the day", window("09:00", "17:00"), window("16:00", "10:00")],
  ["overlapping circles", circle(52, 13, 1_000), circle(52, 13.1, 7_000)],
  ["overlapping boxes", box(0, 0, 2, 2), box(1, 1, 3, 3)],
  [
    "boxes around the earth, each with a gap that the other box covers",
    box(0, 170, 1, 160),
    box(0, 10, 1, 0),
  ],
  ["sibling paths", path("a", "/x"), path("a", "/xy")],
  ["two resources", path("a", "/x"), path("b")],
  ["a circle and a box", circle(0, 0, 1), box(-90, -180, 90, 180)],
  ["polygons", triangle(1), triangle(2)],
  ["unknown types", { type: "vendor_rule" }, { type: "vendor_rule", params: 1 }],
];

describe("widens(known, added)", () => {
  test.each(nested)("returns true if added contains known and more: %s", (_, narrow, wide) => {
    expect(widens(narrow as Constraint, wide as Constraint)).toBe(true);
    expect(widens(wide as Constraint, narrow as Constraint)).toBe(false);
    expect(widens(narrow as Constraint, structuredClone(narrow) as Constraint)).toBe(false);
  });

  test.each(apart)("returns false if neither contains the other: %s", (_, one, other) => {
    expect(widens(one as Constraint, other as Constraint)).toBe(false);
    expect(widens(other as Constraint, one as Constraint)).toBe(false);
  });
});
