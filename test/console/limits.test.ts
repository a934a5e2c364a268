import { describe, expect, test } from "vitest";
import { detailedLimitList, limitList } from "../../src/console/elements/limits.ts";
import { texts } from "../../src/console/texts/texts.ts";
import type { Constraint } from "../../src/protocol/constraints/constraints.ts";

const circle = (lat: number, lon: number, radius_m: number): Constraint => ({
  type: "geo_circle",
  lat,
  lon,
  radius_m,
});
const box = (min_lat: number, min_lon: number, max_lat: number, max_lon: number): Constraint => ({
  type: "geo_bbox",
  min_lat,
  min_lon,
  max_lat,
  max_lon,
});
const detailOf = (constraint: Constraint) => `${detailedLimitList(texts, [constraint])}`;
const linkIn = (markup: string) => /href="https:\/\/www\.openstreetmap\.org\/\?([^"]*)"/.exec(markup)?.[1];

describe("the phrase for a limit", () => {
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
  ])("describes %j", (constraint, said) => {
    expect(texts.limits.say(constraint)).toBe(said);
    expect(`${limitList(texts, [constraint])}`).toContain(`<li>${said.replaceAll("'", "&#39;")}`);
  });
});

describe("an area", () => {
  test.each<[string, Constraint, string, number]>([
    ["a circle", circle(52.52, 13.4, 5_000), "52.52/13.4", 11],
    ["a circle of one meter", circle(1.3, 103.8, 1), "1.3/103.8", 18],
    ["a point", circle(1.3, 103.8, 0), "1.3/103.8", 18],
    ["half of the earth", circle(10, 20, 9_000_000), "10/20", 1],
    ["the south pole", circle(-90, 0, 1_000_000), "-90/0", 1],
    ["the earth", box(-90, -180, 90, 180), "0/0", 1],
    ["a box across the date line", box(-18, 170, -16, -170), "-17/180", 4],
    ["a box beyond the date line", box(-18, 178, -16, -170), "-17/-176", 4],
    [
      "a polygon",
      {
        type: "geo_polygon",
        points: [
          [58, 5],
          [72, 25],
          [60, 12],
        ],
      },
      "65/15",
      3,
    ],
  ])("has a link to its center on a public map, with a zoom that fits %s", (_, limit, middle, zoom) => {
    const markup = detailOf(limit);
    const [lat, lon] = middle.split("/");
    expect(linkIn(markup)).toBe(`mlat=${lat}&#38;mlon=${lon}#map=${zoom}/${middle}`);
    expect(markup).toContain('rel="noreferrer"');
    expect(markup).not.toMatch(/NaN|Infinity|undefined/);
  });

  test("appears with the exact center and radius if it is a circle", () => {
    const markup = detailOf(circle(-33.123456789, 151.2, 12_345.678));
    expect(markup).toContain("<dd>-33.123456789, 151.2</dd>");
    expect(markup).toContain("<dd>12,345.678 m</dd>");
    expect(detailOf(box(0, 1, 2, 3))).not.toContain("<dl");
  });

  test.each<[Constraint]>([[circle(91, 0, 1)], [{ type: "geo_polygon", points: [] }]])(
    "has no link if it is invalid: %j",
    (limit) => {
      expect(linkIn(detailOf(limit))).toBeUndefined();
    },
  );
});

describe("the clock of a time window", () => {
  const clock = (start: string, end: string) => detailOf({ type: "time_window", start, end, tz: "UTC" });

  test.each([
    // Midnight is at the top. Six in the morning is on the right.
    ["00:00", "05:59", "M80 26A54 54 0 0 1 134 80"],
    ["06:00", "23:59", "M134 80A54 54 0 1 1 80 26"],
    ["18:00", "05:59", "M26 80A54 54 0 0 1 134 80"],
  ])("has the right arc from %s to %s", (start, end, arc) => {
    expect(clock(start, end)).toContain(`class="window" d="${arc}"`);
  });

  test("draws a whole circle for a whole day, and nothing for an invalid window", () => {
    expect(clock("00:00", "23:59")).toContain('<circle class="window"');
    expect(clock("9", "10")).not.toContain("<svg");
  });

  test("appears for only the first four of many time windows, while every window has a text", () => {
    const windows = Array.from({ length: 32 }, (_, minute): Constraint => {
      return { type: "time_window", start: "09:00", end: `17:${minute + 10}`, tz: "UTC" };
    });
    const list = `${detailedLimitList(texts, windows)}`;
    expect(list.match(/<svg/g)).toHaveLength(4);
    expect(list.match(/it is from 09:00/g)).toHaveLength(32);
  });
});
