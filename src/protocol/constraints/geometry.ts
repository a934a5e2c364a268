/** A circle on a sphere: `radius_m` meters around a point in degrees (wire format §7). */
export type GeoCircle = {
  type: "geo_circle";
  lat: number;
  lon: number;
  radius_m: number;
};

/** The inside of a polygon of at least three `[lat, lon]` corners, in degrees (wire format §7). */
export type GeoPolygon = {
  type: "geo_polygon";
  points: [number, number][];
};

/**
 * The inside of a box, edges included, in degrees and meters (wire format §7). If `min_lon` is greater than
 * `max_lon`, the box crosses the 180° meridian.
 */
export type GeoBox = {
  type: "geo_bbox";
  min_lat: number;
  min_lon: number;
  max_lat: number;
  max_lon: number;
  min_alt_m?: number;
  max_alt_m?: number;
};

const EARTH_RADIUS_M = 6_371_000;
const MAX_POLYGON_SPAN_DEGREES = 180;

/** Returns whether the two values are a valid latitude and a valid longitude in degrees. */
export function isPosition(lat: number, lon: number): boolean {
  return Math.abs(lat) <= 90 && Math.abs(lon) <= 180;
}

/** Returns the distance in meters between two points on the sphere, by the haversine formula. */
export function distanceMeters(latA: number, lonA: number, latB: number, lonB: number): number {
  const sinLat = Math.sin(radians(latB - latA) / 2);
  const sinLon = Math.sin(radians(lonB - lonA) / 2);
  const haversine = sinLat ** 2 + Math.cos(radians(latA)) * Math.cos(radians(latB)) * sinLon ** 2;
  return 2 * EARTH_RADIUS_M * Math.asin(Math.min(1, Math.sqrt(haversine)));
}

/** Returns whether a point is inside a polygon, by ray casting with coordinates on a plane. */
export function isInsidePolygon(
  points: readonly (readonly [number, number])[],
  lat: number,
  lon: number,
): boolean {
  let inside = false;
  let [previousLat, previousLon] = points.at(-1) ?? [Number.NaN, Number.NaN];
  for (const [cornerLat, cornerLon] of points) {
    if (cornerLat > lat !== previousLat > lat) {
      const crossing =
        ((previousLon - cornerLon) * (lat - cornerLat)) / (previousLat - cornerLat) + cornerLon;
      if (lon < crossing) inside = !inside;
    }
    [previousLat, previousLon] = [cornerLat, cornerLon];
  }
  return inside;
}

/** Returns whether a longitude is from `min` to `max`, both included, across 180° if `min` > `max`. */
export function isInsideLongitudes(min: number, max: number, lon: number): boolean {
  return min <= max ? min <= lon && lon <= max : lon >= min || lon <= max;
}

/** Returns why no point can be inside a circle, or `undefined` if some point can be inside. */
export function geoCircleViolation({ lat, lon, radius_m }: GeoCircle): string | undefined {
  if (!isPosition(lat, lon)) return "the center is not a place on earth";
  return radius_m >= 0 ? undefined : "the radius is negative";
}

/** Returns why a polygon is not accepted, or `undefined` if it is accepted. */
export function geoPolygonViolation({ points }: GeoPolygon): string | undefined {
  if (points.length < 3) return "a polygon has at least three points";
  if (!points.every(([lat, lon]) => isPosition(lat, lon))) return "a point is not a place on earth";
  const longitudes = points.map(([, lon]) => lon);
  const span = longitudes.reduce((a, b) => Math.max(a, b)) - longitudes.reduce((a, b) => Math.min(a, b));
  return span > MAX_POLYGON_SPAN_DEGREES ? "the polygon spans more than 180 degrees of longitude" : undefined;
}

/** Returns why no point can be inside a box, or `undefined` if some point can be inside. */
export function geoBoxViolation(box: GeoBox): string | undefined {
  if (!isPosition(box.min_lat, box.min_lon) || !isPosition(box.max_lat, box.max_lon)) {
    return "a corner is not a place on earth";
  }
  if (box.min_lat > box.max_lat) return "min_lat is over max_lat";
  const { min, max } = altitudeBounds(box);
  return min > max ? "min_alt_m is over max_alt_m" : undefined;
}

/** Returns a box's altitude bounds in meters. If both bounds are 0, the box does not limit altitude. */
export function altitudeBounds({ min_alt_m = 0, max_alt_m = 0 }: GeoBox): { min: number; max: number } {
  return { min: min_alt_m, max: max_alt_m };
}

/**
 * Returns the canonical form of a box, the only form that is signed (wire format §7). It has both altitudes,
 * or neither if both are 0 or absent.
 */
export function canonicalBox(box: GeoBox): GeoBox {
  const { min_alt_m = 0, max_alt_m = 0, ...corners } = box;
  return min_alt_m === 0 && max_alt_m === 0 ? corners : { ...corners, min_alt_m, max_alt_m };
}

function radians(degrees: number): number {
  return (degrees * Math.PI) / 180;
}
