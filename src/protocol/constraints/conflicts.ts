import { type Constraint, contradiction, isKnownConstraint } from "./constraints.ts";
import { altitudeBounds, type GeoBox, isInsideLongitudes } from "./geo.ts";
import { isInsideWindow, type TimeWindow } from "./time_window.ts";

/**
 * Why no request at any time can satisfy all of a certificate's constraints together, each of which alone
 * could be; `undefined` when nothing is known to forbid it. Beyond {@link contradiction} it sees windows of
 * one time zone without a common minute, and boxes without a common place. For issuing (wire format §7):
 * verification finds such constraints denied, or unverifiable, one by one.
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

/** Ranges that meet do so where one of them begins, on a line and on a circle. */
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
