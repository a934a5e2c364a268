import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ConstraintContext, evaluateConstraints } from "../../src/protocol/constraint_evaluation.ts";
import type { Constraint } from "../../src/protocol/constraints.ts";
import { distanceMetres } from "../../src/protocol/geo.ts";
import { isWithin, normalizePath } from "../../src/protocol/resource_path.ts";

const MIDNIGHT_UTC = 1_800_000_000 - (1_800_000_000 % 86_400);

async function outcome(
  constraint: Constraint | Constraint[],
  context: ConstraintContext = {},
  now = MIDNIGHT_UTC,
) {
  const constraints = Array.isArray(constraint) ? constraint : [constraint];
  return (await evaluateConstraints(constraints, { certId: "cert", now, context }))?.code ?? "holds";
}

const at = (latitude: number, longitude: number, altitude_m?: number): ConstraintContext => ({
  latitude,
  longitude,
  altitude_m,
});

describe("geo_circle", () => {
  const circle = { type: "geo_circle", lat: 0, lon: 0, radius_m: 1000 } as const;

  test("holds up to the radius and not beyond", async () => {
    const edge = (1000 / 6_371_000) * (180 / Math.PI);
    expect(await outcome(circle, at(edge - 1e-9, 0))).toBe("holds");
    expect(await outcome(circle, at(edge + 1e-9, 0))).toBe("constraint_denied");
    expect(await outcome(circle, at(0, -edge + 1e-9))).toBe("holds");
    expect(await outcome(circle, at(0, -edge - 1e-9))).toBe("constraint_denied");
  });

  test("holds in its centre even with a radius of 0", async () => {
    expect(await outcome({ ...circle, radius_m: 0 }, at(0, 0))).toBe("holds");
  });

  test("reaches over the 180° meridian", async () => {
    expect(await outcome({ ...circle, lon: 179.9999 }, at(0, -179.9999))).toBe("holds");
  });

  test("measures on a sphere of 6 371 000 m", () => {
    expect(distanceMetres(0, 0, 0, 180)).toBeCloseTo(Math.PI * 6_371_000, 3);
    expect(distanceMetres(90, 0, -90, 77)).toBeCloseTo(Math.PI * 6_371_000, 3);
    expect(distanceMetres(37.7694, -122.4862, 37.82, -122.43).toFixed(1)).toBe("7486.2");
  });

  test.each([
    ["no position", {}],
    ["half a position", { latitude: 0 }],
    ["a position that is no number", at(Number.NaN, 0)],
    ["a latitude over 90", at(90.5, 0)],
    ["an infinite longitude", at(0, Number.POSITIVE_INFINITY)],
  ])("cannot be verified with %s", async (_, context) => {
    expect(await outcome(circle, context)).toBe("constraint_unverifiable");
  });

  test("is denied when it is no circle", async () => {
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

  test("holds inside and not outside", async () => {
    expect(await outcome(square, at(5, 5))).toBe("holds");
    expect(await outcome(square, at(9.999, 9.999))).toBe("holds");
    expect(await outcome(square, at(10.001, 5))).toBe("constraint_denied");
    expect(await outcome(square, at(5, -0.001))).toBe("constraint_denied");
  });

  test("does not hold in the bay of a concave one", async () => {
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

  test("answers the same whichever corner comes first and whichever way it runs", async () => {
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

  test("is denied with a longitude span over 180°, and not with one of 180°", async () => {
    const spanning = (lon: number): [number, number][] => [
      [-10, -90],
      [-10, lon],
      [10, lon],
      [10, -90],
    ];
    expect(await outcome({ ...square, points: spanning(90) }, at(0, 0))).toBe("holds");
    expect(await outcome({ ...square, points: spanning(90.001) }, at(0, 0))).toBe("constraint_denied");
  });

  test("needs three points and a position", async () => {
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
  ])("holds at %d, %d", async (lat, lon) => {
    expect(await outcome(box, at(lat, lon))).toBe("holds");
  });

  test.each([
    [-1.0001, 3],
    [3.0001, 3],
    [0, 1.9999],
    [0, 4.0001],
  ])("does not hold at %d, %d", async (lat, lon) => {
    expect(await outcome(box, at(lat, lon))).toBe("constraint_denied");
  });

  test("wraps the 180° meridian when it runs from east to west", async () => {
    const wrapping = { ...box, min_lon: 170, max_lon: -170 };
    for (const lon of [170, 180, -180, -170]) expect(await outcome(wrapping, at(0, lon))).toBe("holds");
    for (const lon of [169.9, -169.9, 0])
      expect(await outcome(wrapping, at(0, lon))).toBe("constraint_denied");
  });

  test("looks at altitude only when a bound is not 0", async () => {
    const high = { ...box, min_alt_m: 10, max_alt_m: 20 };
    for (const altitude of [10, 20]) expect(await outcome(high, at(0, 3, altitude))).toBe("holds");
    for (const altitude of [9.99, 20.01])
      expect(await outcome(high, at(0, 3, altitude))).toBe("constraint_denied");
    expect(await outcome(high, at(0, 3))).toBe("constraint_unverifiable");
    expect(await outcome({ ...box, min_alt_m: 0, max_alt_m: 0 }, at(0, 3, 9999))).toBe("holds");
    expect(await outcome({ ...box, max_alt_m: 20 }, at(0, 3, 0))).toBe("holds");
    expect(await outcome({ ...box, max_alt_m: 20 }, at(0, 3, -0.1))).toBe("constraint_denied");
  });

  test("is denied upside down, and cannot be verified without a position", async () => {
    expect(await outcome({ ...box, min_lat: 4 }, at(3.5, 3))).toBe("constraint_denied");
    expect(await outcome(box, {})).toBe("constraint_unverifiable");
  });
});

describe("time_window", () => {
  const office = { type: "time_window", start: "09:00", end: "17:00", tz: "UTC" } as const;
  const clock = (hours: number, minutes: number, seconds = 0) =>
    MIDNIGHT_UTC + hours * 3600 + minutes * 60 + seconds;

  test.each([
    ["08:59:59", clock(8, 59, 59), "constraint_denied"],
    ["09:00:00", clock(9, 0), "holds"],
    ["17:00:59", clock(17, 0, 59), "holds"],
    ["17:01:00", clock(17, 1), "constraint_denied"],
  ])("from 09:00 to 17:00 at %s: %s", async (_, now, expected) => {
    expect(await outcome(office, {}, now)).toBe(expected);
  });

  test.each([
    [clock(21, 59, 59), "constraint_denied"],
    [clock(22, 0), "holds"],
    [clock(23, 59, 59), "holds"],
    [clock(24, 0), "holds"],
    [clock(30, 0, 59), "holds"],
    [clock(30, 1), "constraint_denied"],
  ])("from 22:00 to 06:00 wraps midnight: %d %s", async (now, expected) => {
    expect(await outcome({ ...office, start: "22:00", end: "06:00" }, {}, now)).toBe(expected);
  });

  test("of one minute holds for that minute", async () => {
    const noon = { ...office, start: "12:00", end: "12:00" };
    expect(await outcome(noon, {}, clock(12, 0, 59))).toBe("holds");
    expect(await outcome(noon, {}, clock(12, 1))).toBe("constraint_denied");
  });

  test("is local time, on both sides of a change of clocks", async () => {
    const berlin = { ...office, tz: "Europe/Berlin" };
    const [winter, summer] = [Date.UTC(2027, 2, 27, 8, 0) / 1000, Date.UTC(2027, 2, 29, 7, 0) / 1000];
    expect(await outcome(berlin, {}, winter - 1)).toBe("constraint_denied");
    expect(await outcome(berlin, {}, winter)).toBe("holds");
    expect(await outcome(berlin, {}, summer - 1)).toBe("constraint_denied");
    expect(await outcome(berlin, {}, summer)).toBe("holds");
  });

  test("reads zones with offsets of minutes", async () => {
    expect(await outcome({ ...office, tz: "Asia/Kathmandu" }, {}, clock(3, 15))).toBe("holds");
    expect(await outcome({ ...office, tz: "Asia/Kathmandu" }, {}, clock(3, 14, 59))).toBe(
      "constraint_denied",
    );
  });

  test.each(["UTC", "Europe/Kyiv", "US/Pacific", "Asia/Calcutta", "EST5EDT", "Etc/GMT+12"])(
    "knows the zone %j, current or old",
    async (tz) => {
      expect(await outcome({ ...office, tz, start: "00:00", end: "23:59" }, {})).toBe("holds");
    },
  );

  test.each(["utc", "europe/zurich", "EUROPE/ZURICH", "us/pacific"])(
    "is denied in the zone %j, which other verifiers do not find in that spelling",
    async (tz) => {
      expect(await outcome({ ...office, tz, start: "00:00", end: "23:59" }, {})).toBe("constraint_denied");
    },
  );

  test.each(["", "Mars/Olympus", "+00:00", "Local", "Local\0", "UTC ", "PST"])(
    "is denied in the zone %j",
    async (tz) => {
      expect(await outcome({ ...office, tz, start: "00:00", end: "23:59" }, {})).toBe("constraint_denied");
    },
  );

  test.each(["9:00", "09:60", "24:00", "0900", "09:00:00", " 9:00", ""])(
    "is denied from %j",
    async (start) => {
      expect(await outcome({ ...office, start }, {}, clock(12, 0))).toBe("constraint_denied");
    },
  );
});

describe("limits", () => {
  test("max_speed_mps holds up to the limit and not beyond", async () => {
    const limit = { type: "max_speed_mps", max_mps: 15.5 } as const;
    expect(await outcome(limit, { speed_mps: 15.5 })).toBe("holds");
    expect(await outcome(limit, { speed_mps: 15.500001 })).toBe("constraint_denied");
    expect(await outcome(limit, {})).toBe("constraint_unverifiable");
    expect(await outcome(limit, { speed_mps: Number.NaN })).toBe("constraint_unverifiable");
  });

  test("max_amount holds up to the limit and not beyond, in its currency", async () => {
    const limit = { type: "max_amount", max_amount: 5000, currency: "USD" } as const;
    expect(await outcome(limit, { amount: 5000, currency: "USD" })).toBe("holds");
    expect(await outcome(limit, { amount: 5000.01, currency: "USD" })).toBe("constraint_denied");
    expect(await outcome(limit, { amount: 1, currency: "usd" })).toBe("constraint_denied");
    expect(await outcome(limit, { amount: 1 })).toBe("constraint_unverifiable");
    expect(await outcome(limit, { currency: "USD" })).toBe("constraint_unverifiable");
  });

  test("max_rate holds while fewer were used in its window", async () => {
    const limit = { type: "max_rate", count: 3, window_s: 60 } as const;
    const asked: [string, number][] = [];
    const used = (count: number | undefined): ConstraintContext => ({
      invocations: (certId, windowSeconds) => {
        asked.push([certId, windowSeconds]);
        return Promise.resolve(count);
      },
    });
    expect(await outcome(limit, used(2))).toBe("holds");
    expect(await outcome(limit, used(3))).toBe("constraint_denied");
    expect(await outcome(limit, used(undefined))).toBe("constraint_unverifiable");
    expect(await outcome(limit, {})).toBe("constraint_unverifiable");
    expect(asked).toEqual(Array(3).fill(["cert", 60]));
    expect(await outcome({ ...limit, count: 0 }, used(0))).toBe("constraint_denied");
  });
});

describe("resource_path", () => {
  const docs = { type: "resource_path", resource_id: "repo", path_prefix: "/docs" } as const;
  const request = (path: string, resource_id = "repo"): ConstraintContext => ({ resource_id, path });

  test.each(["/docs", "/docs/", "/docs/a", "/docs/a/b%2f..", "/docs/%2e%2e"])(
    "holds for %s",
    async (path) => {
      expect(await outcome(docs, request(path))).toBe("holds");
    },
  );

  test.each([
    "/",
    "/doc",
    "/docsx",
    "/Docs",
    "/docs/../etc",
    "/docs/./a",
    "/docs//a",
    "//docs",
    "docs",
    "",
    "/docs\\a",
    "/docs/a\0",
    "/docs//",
    "/docs/..",
  ])("is denied for %j", async (path) => {
    expect(await outcome(docs, request(path))).toBe("constraint_denied");
  });

  test("is denied for another resource, compared byte by byte", async () => {
    expect(await outcome(docs, request("/docs", "Repo"))).toBe("constraint_denied");
    expect(await outcome({ ...docs, resource_id: "caf\u00e9" }, request("/docs", "cafe\u0301"))).toBe(
      "constraint_denied",
    );
  });

  test("without a prefix holds for the whole resource, with or without a path", async () => {
    const whole = { type: "resource_path", resource_id: "repo" } as const;
    expect(await outcome(whole, request("/any/thing"))).toBe("holds");
    expect(await outcome(whole, { resource_id: "repo" })).toBe("holds");
    expect(await outcome(whole, { path: "/a" })).toBe("constraint_unverifiable");
  });

  test("cannot be verified without a path, and is denied with a prefix that is none", async () => {
    expect(await outcome(docs, { resource_id: "repo" })).toBe("constraint_unverifiable");
    expect(await outcome({ ...docs, path_prefix: "" }, request("/"))).toBe("constraint_denied");
    expect(await outcome({ ...docs, path_prefix: "docs" }, request("/docs"))).toBe("constraint_denied");
  });

  test("is denied, whatever is asked, where prefixes cannot be met together", async () => {
    const beside = [docs, { ...docs, path_prefix: "/src" }];
    expect(await outcome(beside, request("/docs"))).toBe("constraint_denied");
    expect(await outcome(beside, {})).toBe("constraint_denied");
  });

  test("is the narrowest of nested prefixes", async () => {
    const nested = [
      docs,
      { ...docs, path_prefix: "/docs/a" },
      { type: "resource_path", resource_id: "repo" },
    ];
    expect(await outcome(nested, request("/docs/a/b"))).toBe("holds");
    expect(await outcome(nested, request("/docs/b"))).toBe("constraint_denied");
  });

  test("normalizes to one form, and to the same form again", () => {
    const piece = fc.constantFrom("a", "..", ".", "", "%2e", "b c", "\\", "é");
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 5 }), fc.boolean(), (pieces, trailing) => {
        const normal = normalizePath(`/${pieces.join("/")}${trailing ? "/" : ""}`);
        if (normal === undefined) return;
        expect(normalizePath(normal)).toBe(normal);
        expect(isWithin("/", normal)).toBe(true);
        expect(isWithin(normal, normal)).toBe(true);
        expect(normal.split("/")).not.toContain("..");
      }),
    );
  });
});

describe("all constraints", () => {
  const holds = { type: "max_speed_mps", max_mps: 1 } as const;

  test("hold when there are none", async () => expect(await outcome([])).toBe("holds"));

  test("must each hold, and the first that does not is named", async () => {
    const context = { speed_mps: 1 };
    expect(await outcome([holds, { type: "acme:x" }, { ...holds, max_mps: 0 }], context)).toBe(
      "constraint_unknown",
    );
    expect(await outcome([holds, { ...holds, max_mps: 0 }, { type: "acme:x" }], context)).toBe(
      "constraint_denied",
    );
    const refusal = await evaluateConstraints([holds, { type: "acme:x" }], { certId: "c", now: 0, context });
    expect(refusal?.detail).toBe(
      'constraint[1] (acme:x): constraint_unknown: unknown constraint type "acme:x"',
    );
  });

  test.each(["constructor", "toString", "__proto__", "GEO_CIRCLE"])(
    "of the type %s are unknown",
    async (type) => {
      expect(await outcome({ type })).toBe("constraint_unknown");
    },
  );
});
