import {
  altitudeBounds,
  canonicalBox,
  type GeoBox,
  type GeoCircle,
  type GeoPolygon,
  geoBoxViolation,
  geoCircleViolation,
  geoPolygonViolation,
  isInsideLongitudes,
} from "./geometry.ts";
import { areNested, normalizePath, type ResourcePath } from "./resource_path.ts";
import { isInsideWindow, type TimeWindow, timeWindowViolation } from "./time_window.ts";

/** A speed of at most `max_mps` meters per second (wire format §7). */
export type MaxSpeed = {
  type: "max_speed_mps";
  max_mps: number;
};

/** An amount of at most `max_amount`, in exactly `currency` (wire format §7). */
export type MaxAmount = {
  type: "max_amount";
  max_amount: number;
  currency: string;
};

/** Fewer than `count` invocations of the certificate in the last `window_s` seconds (wire format §7). */
export type MaxRate = {
  type: "max_rate";
  count: number;
  window_s: number;
};

/** JSON value of an extension constraint. Numbers are safe integers (wire format §7). */
export type ExtensionParams =
  | null
  | boolean
  | string
  | number
  | ExtensionParams[]
  | { [key: string]: ExtensionParams };

/** The eight constraints that this implementation evaluates (wire format §7). */
export type KnownConstraint =
  | GeoCircle
  | GeoPolygon
  | GeoBox
  | TimeWindow
  | MaxSpeed
  | MaxAmount
  | MaxRate
  | ResourcePath;

/** A constraint whose type has no evaluator. Verification always refuses it (wire format §7). */
export type ExtensionConstraint = {
  type: string;
  params?: ExtensionParams;
};

/** A condition of a certificate. All conditions of all certificates in a chain must hold (wire format §7). */
export type Constraint = KnownConstraint | ExtensionConstraint;

/** Name of a constraint type that has an evaluator. */
export type ConstraintType = KnownConstraint["type"];

type Checks = {
  [T in ConstraintType]: (constraint: Extract<KnownConstraint, { type: T }>) => string | undefined;
};

const CHECKS: Checks = {
  geo_circle: geoCircleViolation,
  geo_polygon: geoPolygonViolation,
  geo_bbox: geoBoxViolation,
  time_window: timeWindowViolation,
  max_speed_mps: ({ max_mps }) => (max_mps >= 0 ? undefined : "the limit is negative"),
  max_amount: ({ max_amount, currency }) =>
    max_amount >= 0 && currency !== "" ? undefined : "the limit is negative or has no currency",
  max_rate: ({ count, window_s }) =>
    count >= 1 && window_s >= 1 ? undefined : "count and window_s must be at least 1",
  resource_path: ({ resource_id, path_prefix }) =>
    resource_id !== "" && normalizePath(path_prefix ?? "/") !== undefined
      ? undefined
      : "the resource id is empty or the prefix is not a path",
};

/** Returns whether a constraint has one of the eight types with an evaluator. */
export function isKnownConstraint(constraint: Constraint): constraint is KnownConstraint {
  return Object.hasOwn(CHECKS, constraint.type);
}

/** Returns the canonical form of a constraint, the only form that is signed (wire format §7). */
export function canonicalConstraint(constraint: Constraint): Constraint {
  return isBox(constraint) ? canonicalBox(constraint) : constraint;
}

/** Returns why a constraint can never hold, or `undefined` if it may hold or is an extension constraint. */
export function constraintViolation(constraint: Constraint): string | undefined {
  if (!isKnownConstraint(constraint)) return undefined;
  const check = CHECKS[constraint.type] as (constraint: KnownConstraint) => string | undefined;
  return check(constraint);
}

/**
 * Returns why no single request can satisfy all constraints of one certificate, although each could hold
 * alone: resource paths in conflict, or amounts in different currencies (wire format §7).
 */
export function contradiction(constraints: readonly Constraint[]): string | undefined {
  const known = constraints.filter(isKnownConstraint);
  if (!areNested(known.filter((constraint) => constraint.type === "resource_path"))) {
    return "the resource_path constraints cannot be met together";
  }
  const currencies = known.flatMap((constraint) =>
    constraint.type === "max_amount" ? [constraint.currency] : [],
  );
  return new Set(currencies).size > 1 ? "the max_amount constraints name different currencies" : undefined;
}

function isBox(constraint: Constraint): constraint is GeoBox {
  return constraint.type === "geo_bbox";
}

/**
 * Returns why no request at any time can satisfy all constraints of a certificate together. In addition to
 * the conflicts of {@link contradiction}, finds time windows in one time zone that share no minute, and boxes
 * that do not overlap. Only issuers check this (wire format §7).
 */
export function issuingConflict(constraints: readonly Constraint[]): string | undefined {
  const known = constraints.filter(isKnownConstraint);
  const windows = known.filter((constraint) => constraint.type === "time_window");
  const boxes = known.filter((constraint) => constraint.type === "geo_bbox");
  return (
    contradiction(constraints) ??
    (shareMinute(windows) ? undefined : "the time_window constraints have no minute in common") ??
    (sharePlace(boxes) ? undefined : "the geo_bbox constraints have no place in common")
  );
}

function shareMinute(windows: readonly TimeWindow[]): boolean {
  const zones = Map.groupBy(windows, ({ tz }) => tz);
  return [...zones.values()].every((sameZone) =>
    sameZone.some(({ start }) => sameZone.every((window) => isInsideWindow(window, start))),
  );
}

/** Returns whether boxes overlap. Tests only the starts of their ranges, because an overlap begins at one. */
function sharePlace(boxes: readonly GeoBox[]): boolean {
  if (boxes.length === 0) return true;
  const altitudes = boxes.map(altitudeBounds).filter(({ min, max }) => min !== 0 || max !== 0);
  return (
    boxes.some(({ min_lat: lat }) => boxes.every((box) => box.min_lat <= lat && lat <= box.max_lat)) &&
    boxes.some(({ min_lon: lon }) =>
      boxes.every((box) => isInsideLongitudes(box.min_lon, box.max_lon, lon)),
    ) &&
    altitudes.every(({ min }) => altitudes.every(({ max }) => min <= max))
  );
}
