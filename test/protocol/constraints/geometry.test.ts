import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { distanceMeters } from "../../../src/protocol/constraints/geometry.ts";
import { at, outcome } from "../../support/answers.ts";

describe("geo_circle", () => {
  const circle = { type: "geo_circle", lat: 0, lon: 0, radius_m: 1000 } as const;

  test("holds up to the radius, but not beyond it", async () => {
    const edge = (1000 / 6_371_000) * (180 / Math.PI);
    expect(await outcome(circle, at(edge - 1e-9, 0))).toBe("holds");
    expect(await outcome(circle, at(edge + 1e-9, 0))).toBe("constraint_denied");
    expect(await outcome(circle, at(0, -edge + 1e-9))).toBe("holds");
    expect(await outcome(circle, at(0, -edge - 1e-9))).toBe("constraint_denied");
  });

  test("holds at its center even with a radius of 0", async () => {
    expect(await outcome({ ...circle, radius_m: 0 }, at(0, 0))).toBe("holds");
  });

  test("holds across the 180° meridian", async () => {
    expect(await outcome({ ...circle, lon: 179.9999 }, at(0, -179.9999))).toBe("holds");
  });

  test("measures distances on a sphere with a radius of 6,371,000 m", () => {
    expect(distanceMeters(0, 0, 0, 180)).toBeCloseTo(Math.PI * 6_371_000, 3);
    expect(distanceMeters(90, 0, -90, 77)).toBeCloseTo(Math.PI * 6_371_000, 3);
    expect(distanceMeters(37.7694, -122.4862, 37.82, -122.43).toFixed(1)).toBe("7486.2");
  });

  test.each([
    ["no position", {}],
    ["half a position", { latitude: 0 }],
    ["a position that is not a number", at(Number.NaN, 0)],
    ["a latitude over 90", at(90.5, 0)],
    ["an infinite longitude", at(0, Number.POSITIVE_INFINITY)],
  ])("reports a context with %s as unverifiable", async (_, context) => {
    expect(await outcome(circle, context)).toBe("constraint_unverifiable");
  });

  test("denies every position if the circle is not valid", async () => {
    expect(await outcome({ ...circle, radius_m: -1 }, at(0, 0))).toBe("constraint_denied");
    expect(await outcome({ ...circle, lat: 91 }, {})).toBe("constraint_denied");
  });
});

describe("geo_polygon", () => {
  const square = {
    type: "geo_polygon",
    points: [
      [0, 0],
      [0, 10],
      [10, 10],
      [10, 0],
    ] as [number, number][],
  } as const;

  test("holds inside, but not outside", async () => {
    expect(await outcome(square, at(5, 5))).toBe("holds");
    expect(await outcome(square, at(9.999, 9.999))).toBe("holds");
    expect(await outcome(square, at(10.001, 5))).toBe("constraint_denied");
    expect(await outcome(square, at(5, -0.001))).toBe("constraint_denied");
  });

  test("does not hold in the bay of a concave polygon", async () => {
    const hook: [number, number][] = [
      [0, 0],
      [0, 10],
      [10, 10],
      [10, 8],
      [2, 8],
      [2, 0],
    ];
    expect(await outcome({ ...square, points: hook }, at(5, 4))).toBe("constraint_denied");
    expect(await outcome({ ...square, points: hook }, at(5, 9))).toBe("holds");
  });

  test("gives the same answer whichever corner comes first, and with the corners in reverse order", async () => {
    const point = fc.double({ min: -12, max: 12, noNaN: true });
    await fc.assert(
      fc.asyncProperty(point, point, fc.nat(3), async (lat, lon, turn) => {
        const turned = [...square.points.slice(turn), ...square.points.slice(0, turn)];
        const [forth, back] = [turned, [...turned].reverse()].map((points) =>
          outcome({ ...square, points }, at(lat, lon)),
        );
        expect(await forth).toBe(await outcome(square, at(lat, lon)));
        expect(await back).toBe(await forth);
      }),
    );
  });

  test("denies every position if the polygon spans more than 180° of longitude, but not if it spans exactly 180°", async () => {
    const spanning = (lon: number): [number, number][] => [
      [-10, -90],
      [-10, lon],
      [10, lon],
      [10, -90],
    ];
    expect(await outcome({ ...square, points: spanning(90) }, at(0, 0))).toBe("holds");
    expect(await outcome({ ...square, points: spanning(90.001) }, at(0, 0))).toBe("constraint_denied");
  });

  test("requires three points and a position", async () => {
    expect(
      await outcome(
        {
          ...square,
          points: [
            [0, 0],
            [0, 10],
          ],
        },
        at(0, 5),
      ),
    ).toBe("constraint_denied");
    expect(await outcome({ ...square, points: [] }, at(0, 5))).toBe("constraint_denied");
    expect(await outcome(square, {})).toBe("constraint_unverifiable");
  });
});

describe("geo_bbox", () => {
  const box = { type: "geo_bbox", min_lat: -1, min_lon: 2, max_lat: 3, max_lon: 4 } as const;

  test.each([
    [-1, 2],
    [3, 4],
    [-1, 4],
    [3, 2],
    [0, 3],
  ])("holds at latitude %d and longitude %d", async (lat, lon) => {
    expect(await outcome(box, at(lat, lon))).toBe("holds");
  });

  test.each([
    [-1.0001, 3],
    [3.0001, 3],
    [0, 1.9999],
    [0, 4.0001],
  ])("does not hold at latitude %d and longitude %d", async (lat, lon) => {
    expect(await outcome(box, at(lat, lon))).toBe("constraint_denied");
  });

  test("crosses the 180° meridian if min_lon is greater than max_lon", async () => {
    const wrapping = { ...box, min_lon: 170, max_lon: -170 };
    for (const lon of [170, 180, -180, -170]) expect(await outcome(wrapping, at(0, lon))).toBe("holds");
    for (const lon of [169.9, -169.9, 0]) {
      expect(await outcome(wrapping, at(0, lon))).toBe("constraint_denied");
    }
  });

  test("holds only on a line, not around the whole earth, if both longitudes are equal", async () => {
    const line = { ...box, max_lon: box.min_lon } as const;
    expect(await outcome(line, at(0, 2))).toBe("holds");
    expect(await outcome(line, at(0, 2.000001))).toBe("constraint_denied");
    expect(await outcome(line, at(0, 1.999999))).toBe("constraint_denied");
  });

  test("checks altitude only if a bound is not 0", async () => {
    const high = { ...box, min_alt_m: 10, max_alt_m: 20 };
    for (const altitude of [10, 20]) expect(await outcome(high, at(0, 3, altitude))).toBe("holds");
    for (const altitude of [9.99, 20.01]) {
      expect(await outcome(high, at(0, 3, altitude))).toBe("constraint_denied");
    }
    expect(await outcome(high, at(0, 3))).toBe("constraint_unverifiable");
    expect(await outcome({ ...box, min_alt_m: 0, max_alt_m: 0 }, at(0, 3, 9999))).toBe("holds");
    expect(await outcome({ ...box, max_alt_m: 20 }, at(0, 3, 0))).toBe("holds");
    expect(await outcome({ ...box, max_alt_m: 20 }, at(0, 3, -0.1))).toBe("constraint_denied");
  });

  test("denies every position if min_lat is greater than max_lat, and reports a request without a position as unverifiable", async () => {
    expect(await outcome({ ...box, min_lat: 4 }, at(3.5, 3))).toBe("constraint_denied");
    expect(await outcome(box, {})).toBe("constraint_unverifiable");
  });
});
