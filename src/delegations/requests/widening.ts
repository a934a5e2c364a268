import {
  type Constraint,
  type ConstraintType,
  isKnownConstraint,
  type KnownConstraint,
} from "../../protocol/constraints/constraints.ts";
import { distanceMetres, type GeoBox } from "../../protocol/constraints/geo.ts";
import { isWithin, normalizePath, type ResourcePath } from "../../protocol/constraints/resource_path.ts";
import { isInsideWindow, type TimeWindow } from "../../protocol/constraints/time_window.ts";

/** Whether `added` allows all that `known` does, and more. Constraints of different types never do. */
export function widens(known: Constraint, added: Constraint): boolean {
  if (!isKnownConstraint(known) || !isKnownConstraint(added)) return false;
  return allowsAllOf(added, known) && !allowsAllOf(known, added);
}

type Comparisons = {
  [T in ConstraintType]: (wide: Of<T>, narrow: Of<T>) => boolean;
};
type Of<T extends ConstraintType> = Extract<KnownConstraint, { type: T }>;

/** Whether the first holds wherever the second does. */
const COMPARISONS: Comparisons = {
  max_amount: (wide, narrow) => wide.currency === narrow.currency && wide.max_amount >= narrow.max_amount,
  max_speed_mps: (wide, narrow) => wide.max_mps >= narrow.max_mps,
  max_rate: (wide, narrow) => wide.count >= narrow.count && wide.window_s <= narrow.window_s,
  time_window: hasWindow,
  geo_circle: (wide, narrow) =>
    distanceMetres(wide.lat, wide.lon, narrow.lat, narrow.lon) + narrow.radius_m <= wide.radius_m,
  geo_bbox: hasBox,
  // Polygons are not compared.
  geo_polygon: () => false,
  resource_path: (wide, narrow) => wide.resource_id === narrow.resource_id && hasPath(wide, narrow),
};

function allowsAllOf(wide: KnownConstraint, narrow: KnownConstraint): boolean {
  const compare = COMPARISONS[wide.type] as (wide: KnownConstraint, narrow: KnownConstraint) => boolean;
  return wide.type === narrow.type && compare(wide, narrow);
}

function hasPath(wide: ResourcePath, narrow: ResourcePath): boolean {
  const [above = "", below = ""] = [wide, narrow].map(({ path_prefix = "/" }) => normalizePath(path_prefix));
  return isWithin(above, below);
}

/** Minute by minute, since both may wrap midnight. */
function hasWindow(wide: TimeWindow, narrow: TimeWindow): boolean {
  return wide.tz === narrow.tz && minutesOf(narrow).every((minute) => isInsideWindow(wide, minute));
}

function minutesOf(window: TimeWindow): string[] {
  return DAY.filter((minute) => isInsideWindow(window, minute));
}

const DAY = Array.from({ length: 24 * 60 }, (_, minute) =>
  [Math.floor(minute / 60), minute % 60].map((part) => String(part).padStart(2, "0")).join(":"),
);

function hasBox(wide: GeoBox, narrow: GeoBox): boolean {
  return (
    wide.min_lat <= narrow.min_lat &&
    narrow.max_lat <= wide.max_lat &&
    hasLongitudes(wide, narrow) &&
    hasAltitudes(wide, narrow)
  );
}

/** Both are ways to the east, from `min_lon` on. */
function hasLongitudes(wide: GeoBox, narrow: GeoBox): boolean {
  const eastward = (from: number, to: number) => (from <= to ? to - from : to - from + 360);
  const width = (box: GeoBox) => eastward(box.min_lon, box.max_lon);
  return eastward(wide.min_lon, narrow.min_lon) + width(narrow) <= width(wide);
}

function hasAltitudes(wide: GeoBox, narrow: GeoBox): boolean {
  if (wide.min_alt_m === undefined || wide.max_alt_m === undefined) return true;
  return (
    narrow.min_alt_m !== undefined &&
    narrow.max_alt_m !== undefined &&
    wide.min_alt_m <= narrow.min_alt_m &&
    narrow.max_alt_m <= wide.max_alt_m
  );
}
