import { describe, expect, test } from "vitest";
import { dayClock } from "../../../src/console/elements/limits/day_clock.ts";
import { drawnLimitList, limitList } from "../../../src/console/elements/limits/limit_list.ts";
import { type PlaceLimit, placeMap } from "../../../src/console/elements/limits/place_map.ts";
import { texts } from "../../../src/console/texts/texts.ts";

const circle = (lat: number, lon: number, radius_m: number): PlaceLimit => ({
  type: "geo_circle",
  lat,
  lon,
  radius_m,
});
const pathOf = (svg: string, name: string) => new RegExp(`class="${name}" d="([^"]*)"`).exec(svg)?.[1] ?? "";
/** The points of a path. */
const points = (path: string) =>
  [...path.matchAll(/[ML](-?\d+) (-?\d+)/g)].map(([, x, y]) => [Number(x), Number(y)] as const);

describe("limits in words", () => {
  test.each([
    [{ type: "max_amount", max_amount: 1_234.5, currency: "EUR" }, "the amount is at most 1,234.5 EUR"],
    [{ type: "max_rate", count: 1, window_s: 3_600 }, "it is used at most once in 1 hour"],
    [{ type: "max_rate", count: 20, window_s: 30 }, "it is used at most 20 times in 30 s"],
    [
      { type: "time_window", start: "22:00", end: "06:00", tz: "Europe/Berlin" },
      "it is from 22:00 to 06:00 the next day, by the time of Europe/Berlin",
    ],
    [circle(-33.9, 151.2, 800), "the place is within 800 m of 33.9° S 151.2° E"],
    [circle(52.52, -13.4, 12_500), "the place is within 12.5 km of 52.52° N 13.4° W"],
    [
      { type: "geo_bbox", min_lat: 0, min_lon: 1, max_lat: 2, max_lon: 3, min_alt_m: 0, max_alt_m: 120 },
      "the place is between 0° N 1° E and 2° N 3° E, 0 to 120 m high",
    ],
    [
      {
        type: "geo_polygon",
        points: [
          [1, 2],
          [3, 4],
          [5, 6],
        ] as [number, number][],
      },
      "the place is in the area with the corners 1° N 2° E; 3° N 4° E; 5° N 6° E",
    ],
    [{ type: "max_speed_mps", max_mps: 13.9 }, "the speed is at most 13.9 m/s (50 km/h)"],
    [{ type: "resource_path", resource_id: "till" }, "it is about the resource till"],
    [
      { type: "resource_path", resource_id: "till", path_prefix: "/a" },
      "it is about the resource till, at /a or below",
    ],
  ])("%j", (constraint, said) => {
    expect(texts.limits.say(constraint)).toBe(said);
    expect(`${limitList(texts, [constraint])}`).toContain(`<li>${said.replaceAll("'", "&#39;")}`);
  });
});

describe("the map of a place", () => {
  test.each([
    ["Berlin", circle(52.52, 13.4, 5_000)],
    ["Singapore", circle(1.3, 103.8, 20_000)],
    ["Fiji, over the date line", circle(-17, 179.5, 300_000)],
    ["half of the earth", circle(10, 20, 9_000_000)],
    ["the south pole", circle(-90, 0, 1_000_000)],
    ["the earth", { type: "geo_bbox", min_lat: -90, min_lon: -180, max_lat: 90, max_lon: 180 } as PlaceLimit],
    [
      "Norway",
      {
        type: "geo_polygon",
        points: [
          [58, 5],
          [71, 25],
          [60, 12],
        ],
      } as PlaceLimit,
    ],
  ])("of %s is drawn, and small", (_, limit) => {
    const svg = `${placeMap(texts, limit)}`;
    expect(pathOf(svg, "land").length).toBeGreaterThan(100);
    expect(points(pathOf(svg, "place")).length).toBeGreaterThan(8);
    expect(svg.length).toBeLessThan(20_000);
    expect(svg).not.toMatch(/NaN|Infinity|undefined/);
  });

  test("has the place in its middle, in its true proportion", () => {
    const shown = points(pathOf(`${placeMap(texts, circle(52.52, 13.4, 1_000_000))}`, "place"));
    for (const [x, y] of shown) expect(Math.hypot(x - 240, y - 150)).toBeCloseTo(150 / 1.6, -0.4);
  });

  test("has north on top and east on the right", () => {
    const north = points(
      pathOf(
        `${placeMap(texts, {
          type: "geo_polygon",
          points: [
            [50, 10],
            [55, 12],
            [50, 14],
          ],
        })}`,
        "place",
      ),
    );
    const top = north.reduce((best, point) => (point[1] < best[1] ? point : best));
    expect(Math.abs(top[0] - 240)).toBeLessThan(3);
    expect(north[0]?.[0]).toBeLessThan(240);
  });

  test("knows land from sea: the middle of Africa is land, the middle of the Atlantic is none", () => {
    expect(pathOf(`${placeMap(texts, circle(5, 20, 1_000))}`, "land")).not.toBe("");
    expect(pathOf(`${placeMap(texts, circle(30, -40, 1_000))}`, "land")).toBe("");
  });

  test("is none for what is no place", () => {
    expect(placeMap(texts, circle(91, 0, 1))).toBeUndefined();
    expect(placeMap(texts, { type: "geo_polygon", points: [] })).toBeUndefined();
  });
});

describe("the clock of a window", () => {
  const window = (start: string, end: string) =>
    `${dayClock(texts, { type: "time_window", start, end, tz: "UTC" })}`;

  test.each([
    // Midnight is on top, six in the morning on the right.
    ["00:00", "05:59", "M80 26A54 54 0 0 1 134 80"],
    ["06:00", "23:59", "M134 80A54 54 0 1 1 80 26"],
    ["18:00", "05:59", "M26 80A54 54 0 0 1 134 80"],
  ])("from %s to %s", (start, end, arc) => {
    expect(pathOf(window(start, end), "window")).toBe(arc);
  });

  test("is a whole circle for a whole day, and none for what is no window", () => {
    expect(window("00:00", "23:59")).toContain('<circle class="window"');
    expect(dayClock(texts, { type: "time_window", start: "9", end: "10", tz: "UTC" })).toBeUndefined();
  });
});

test("a list of very many places is drawn in part, and said in full", () => {
  const places = Array.from({ length: 32 }, (_, lat) => circle(lat, 20, 1_000));
  const list = `${drawnLimitList(texts, places)}`;
  expect(list.match(/<svg/g)).toHaveLength(4);
  expect(list.match(/within 1 km of/g)).toHaveLength(32);
});
