import { type GeoPermissibleObjects, type GeoProjection, geoAzimuthalEquidistant, geoCircle } from "d3-geo";
import { type Html, html } from "../../../html/html.ts";
import { constraintViolation } from "../../../protocol/constraints/constraints.ts";
import type { GeoBox, GeoCircle, GeoPolygon } from "../../../protocol/constraints/geo.ts";
import type { Texts } from "../../texts/texts.ts";
import { countriesPath, type Region, shapePath } from "./world.ts";

/** A constraint that is about a place. */
export type PlaceLimit = GeoCircle | GeoPolygon | GeoBox;

const WIDTH = 480;
const HEIGHT = 300;
const METRES_OF_A_DEGREE = 111_195;
/** So much is shown at least, so that coasts and borders tell where it is. Degrees. */
const SMALLEST = 2.5;
const STEPS = 24;

type Corner = readonly [lat: number, lon: number];

/**
 * A map of a place, drawn here: coasts and borders, and the place on them. The words beside it say the same.
 * Nothing for a place that is none.
 */
export function placeMap({ limits }: Texts, limit: PlaceLimit): Html | undefined {
  if (constraintViolation(limit) !== undefined) return undefined;
  const region = regionOf(limit);
  const projection = projectionOf(region);
  const [x = 0, y = 0] = projection([region.lon, region.lat]) ?? [];
  return html`<svg class="place-map" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${limits.map}>
    <rect class="sea" width=${WIDTH} height=${HEIGHT} />
    <path class="land" d=${countriesPath(region, projection)} />
    <path class="place" d=${shapePath(shapeOf(limit), projection)} />
    <circle class="centre" cx=${Math.round(x)} cy=${Math.round(y)} r="3" />
  </svg>`;
}

/** The place in the middle, with as much around it, in steps so that maps beside each other are alike. */
function regionOf(limit: PlaceLimit): Region {
  if (limit.type === "geo_circle") {
    return { lat: limit.lat, lon: limit.lon, radius: shown(limit.radius_m / METRES_OF_A_DEGREE) };
  }
  const { south, west, north, east } = boundsOf(limit);
  const [lat, lon] = [(south + north) / 2, (west + east) / 2];
  const wide = ((east - west) / 2) * Math.cos((lat * Math.PI) / 180);
  return {
    lat,
    lon: lon > 180 ? lon - 360 : lon,
    radius: shown(Math.max((north - south) / 2, wide)),
  };
}

function shown(radius: number): number {
  return Math.min(175, Math.max(SMALLEST, radius * 1.6));
}

function boundsOf(limit: GeoPolygon | GeoBox) {
  if (limit.type === "geo_bbox") {
    const { min_lat: south, min_lon: west, max_lat: north, max_lon } = limit;
    return { south, west, north, east: max_lon < west ? max_lon + 360 : max_lon };
  }
  const lats = limit.points.map(([lat]) => lat);
  const lons = limit.points.map(([, lon]) => lon);
  return {
    south: Math.min(...lats),
    west: Math.min(...lons),
    north: Math.max(...lats),
    east: Math.max(...lons),
  };
}

/** Distances from the middle are true on it, so that a circle around it is one. */
function projectionOf({ lat, lon, radius }: Region): GeoProjection {
  const perRadian = HEIGHT / 2 / ((radius * Math.PI) / 180);
  return geoAzimuthalEquidistant()
    .rotate([-lon, -lat])
    .translate([WIDTH / 2, HEIGHT / 2])
    .scale(perRadian)
    .clipAngle(Math.min(179, radius * 2))
    .clipExtent([
      [-5, -5],
      [WIDTH + 5, HEIGHT + 5],
    ]);
}

function shapeOf(limit: PlaceLimit): GeoPermissibleObjects {
  if (limit.type === "geo_circle") {
    const radius = Math.min(179, Math.max(0.01, limit.radius_m / METRES_OF_A_DEGREE));
    return geoCircle().center([limit.lon, limit.lat]).radius(radius)();
  }
  // Edges are straight between degrees, as they are checked: not the shortest way on a sphere.
  const corners = limit.type === "geo_polygon" ? limit.points : cornersOf(limit);
  const edge = corners.flatMap((corner, place) =>
    between(corner, corners[(place + 1) % corners.length] ?? corner),
  );
  return { type: "LineString", coordinates: [...edge, edge[0] ?? []] };
}

function cornersOf(box: GeoBox): Corner[] {
  const { south, west, north, east } = boundsOf(box);
  return [
    [south, west],
    [south, east],
    [north, east],
    [north, west],
  ];
}

function between([lat, lon]: Corner, [toLat, toLon]: Corner): [lon: number, lat: number][] {
  return Array.from({ length: STEPS }, (_, step) => [
    lon + ((toLon - lon) * step) / STEPS,
    lat + ((toLat - lat) * step) / STEPS,
  ]);
}
