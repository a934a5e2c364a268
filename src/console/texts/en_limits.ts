import type { Constraint, KnownConstraint } from "../../protocol/constraints/constraints.ts";
import { altitudeBounds } from "../../protocol/constraints/geo.ts";
import { span } from "./en_decisions.ts";

type Sayings = {
  [T in KnownConstraint["type"]]: (constraint: Extract<KnownConstraint, { type: T }>) => string;
};

/** What each constraint means, as the end of "only if". */
const SAYINGS: Sayings = {
  max_amount: ({ max_amount, currency }) => `the amount is at most ${number(max_amount)} ${currency}`,
  max_rate: ({ count, window_s }) =>
    `it is used at most ${count === 1 ? "once" : `${number(count)} times`} in ${window_s < 60 ? `${window_s} s` : span(window_s)}`,
  time_window: ({ start, end, tz }) =>
    `it is from ${start} to ${end}${end < start ? " the next day" : ""}, by the time of ${tz}`,
  geo_circle: ({ lat, lon, radius_m }) =>
    `the place is within ${distance(radius_m)} of ${position(lat, lon)}`,
  geo_polygon: ({ points }) =>
    `the place is in the area with the corners ${points.map(([lat, lon]) => position(lat, lon)).join("; ")}`,
  geo_bbox(box) {
    const { min, max } = altitudeBounds(box);
    const height = min === 0 && max === 0 ? "" : `, ${number(min)} to ${number(max)} m high`;
    return `the place is between ${position(box.min_lat, box.min_lon)} and ${position(box.max_lat, box.max_lon)}${height}`;
  },
  max_speed_mps: ({ max_mps }) =>
    `the speed is at most ${number(max_mps)} m/s (${number(Math.round(max_mps * 36) / 10)} km/h)`,
  resource_path: ({ resource_id, path_prefix = "/" }) =>
    path_prefix === "/"
      ? `it is about the resource ${resource_id}`
      : `it is about the resource ${resource_id}, at ${path_prefix} or below`,
};

/** Words about constraints. Pages call them limits. */
export const LIMITS = {
  say(constraint: Constraint): string {
    if (!Object.hasOwn(SAYINGS, constraint.type)) {
      const params = "params" in constraint ? ` ${JSON.stringify(constraint.params)}` : "";
      return `the rule ${constraint.type}${params} holds, which is not known here: until it is, every use is denied`;
    }
    const say = SAYINGS[constraint.type as KnownConstraint["type"]] as (constraint: Constraint) => string;
    return say(constraint);
  },
  map: "Map of the place, with coasts and borders",
  clock: "The hours of a day, from midnight on top",
};

function number(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: 6 });
}

function distance(metres: number): string {
  return metres < 1_000 ? `${number(metres)} m` : `${number(Math.round(metres) / 1_000)} km`;
}

function position(lat: number, lon: number): string {
  const degrees = (value: number) => `${number(Math.abs(value))}°`;
  return `${degrees(lat)} ${lat < 0 ? "S" : "N"} ${degrees(lon)} ${lon < 0 ? "W" : "E"}`;
}
