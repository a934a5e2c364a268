import { type Html, html } from "../../html/html.ts";
import {
  type Constraint,
  constraintViolation,
  isKnownConstraint,
} from "../../protocol/constraints/constraints.ts";
import type { GeoBox, GeoCircle, GeoPolygon } from "../../protocol/constraints/geometry.ts";
import type { TimeWindow } from "../../protocol/constraints/time_window.ts";
import type { Texts } from "../texts/texts.ts";
import { facts } from "./values.ts";

/** Maximum number of clocks in a list, since untrusted parties determine how many time windows it has. */
const MOST_CLOCKS = 4;

/** Returns constraints as phrases. Each phrase continues the words "only if". */
export function limitList(texts: Texts, constraints: readonly Constraint[]): Html {
  return html`<ul class="limits">${constraints.map(
    (constraint) => html`<li>${texts.limits.say(constraint)}</li>`,
  )}</ul>`;
}

/** Returns constraints as phrases, a clock for a time window, and coordinates and a map link for an area. */
export function detailedLimitList(texts: Texts, constraints: readonly Constraint[]): Html {
  const drawn = new Set(constraints.filter(({ type }) => type === "time_window").slice(0, MOST_CLOCKS));
  return html`<ul class="limits">${constraints.map(
    (constraint) =>
      html`<li>${texts.limits.say(constraint)}${detail(texts, constraint, drawn.has(constraint))}</li>`,
  )}</ul>`;
}

function detail(texts: Texts, constraint: Constraint, isDrawn: boolean): Html | undefined {
  if (!isKnownConstraint(constraint) || constraintViolation(constraint) !== undefined) return undefined;
  switch (constraint.type) {
    case "time_window":
      return isDrawn ? dayClock(texts, constraint) : undefined;
    case "geo_circle":
    case "geo_polygon":
    case "geo_bbox":
      return place(texts, constraint);
    default:
      return undefined;
  }
}

type Place = GeoCircle | GeoPolygon | GeoBox;
type Circle = Pick<GeoCircle, "lat" | "lon" | "radius_m">;

const METERS_PER_DEGREE = 111_195;
/** Radius of a circle that fills a map of zoom level 0 at the equator. */
const WHOLE_MAP_METERS = 20_000_000;

/** Returns a map link, and a circle's coordinates. Only following the link sends the location to the map. */
function place({ limits }: Texts, limit: Place): Html {
  const { lat, lon, radius_m } = circleAround(limit);
  const shrunk = Math.log2((WHOLE_MAP_METERS * Math.cos((lat * Math.PI) / 180)) / radius_m);
  const zoom = Math.min(18, Math.max(1, Math.floor(shrunk)));
  const map = `https://www.openstreetmap.org/?mlat=${lat}&mlon=${lon}#map=${zoom}/${lat}/${lon}`;
  return html`${
    limit.type === "geo_circle" &&
    facts([
      [limits.center, limits.coordinates(lat, lon)],
      [limits.radius, limits.meters(radius_m)],
    ])
  }<p><a href=${map} target="_blank" rel="noreferrer">${limits.map}</a></p>`;
}

/** Returns a circle around the center. For a polygon or box, the radius is half of the longer side. */
function circleAround(limit: Place): Circle {
  if (limit.type === "geo_circle") return limit;
  const { south, west, north, east } = boundsOf(limit);
  const [lat, lon] = [(south + north) / 2, (west + east) / 2];
  const halfWidth = ((east - west) / 2) * Math.cos((lat * Math.PI) / 180);
  const radius = Math.max((north - south) / 2, halfWidth) * METERS_PER_DEGREE;
  return { lat, lon: lon > 180 ? lon - 360 : lon, radius_m: radius };
}

/** Returns the bounds in degrees. `east` exceeds 180 for a box that crosses the date line. */
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

const MIDDLE = 80;
const RADIUS = 54;
const MINUTES = 24 * 60;
const HOURS = [0, 3, 6, 9, 12, 15, 18, 21];

/** Draws the time window as an arc, with midnight at the top. The text next to it has the same content. */
function dayClock({ limits }: Texts, window: TimeWindow): Html {
  const start = minuteOf(window.start);
  // The window includes its last minute.
  const length = ((minuteOf(window.end) - start + MINUTES) % MINUTES) + 1;
  return html`<svg class="day-clock" viewBox=${`0 0 ${MIDDLE * 2} ${MIDDLE * 2}`} role="img" aria-label=${limits.clock}>
    <circle class="day" cx=${MIDDLE} cy=${MIDDLE} r=${RADIUS} />
    ${
      length >= MINUTES
        ? html`<circle class="window" cx=${MIDDLE} cy=${MIDDLE} r=${RADIUS} />`
        : html`<path class="window" d=${arc(start, length)} />`
    }
    ${HOURS.map((hour) => {
      const [x, y] = pointAt(hour * 60, RADIUS + 16);
      return html`<text x=${x} y=${y}>${hour}</text>`;
    })}
  </svg>`;
}

function arc(start: number, length: number): string {
  const isMost = length > MINUTES / 2 ? 1 : 0;
  const [from, to] = [pointAt(start, RADIUS), pointAt(start + length, RADIUS)];
  return `M${from.join(" ")}A${RADIUS} ${RADIUS} 0 ${isMost} 1 ${to.join(" ")}`;
}

function pointAt(minute: number, radius: number): [number, number] {
  const angle = (minute / MINUTES) * 2 * Math.PI;
  return [
    Math.round((MIDDLE + Math.sin(angle) * radius) * 10) / 10,
    Math.round((MIDDLE - Math.cos(angle) * radius) * 10) / 10,
  ];
}

function minuteOf(clock: string): number {
  return Number(clock.slice(0, 2)) * 60 + Number(clock.slice(3));
}
