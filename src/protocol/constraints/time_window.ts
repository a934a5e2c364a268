/**
 * A time of day from `start` to `end`, both minutes included. If `end` is before `start`, the window crosses
 * midnight (wire format §7).
 */
export type TimeWindow = {
  type: "time_window";
  /** HH:MM. */
  start: string;
  /** HH:MM. */
  end: string;
  /** IANA time zone. */
  tz: string;
};

const CLOCK = /^(?:[01]\d|2[0-3]):[0-5]\d$/;
const ZONE_NAME = /^[A-Za-z][A-Za-z0-9_+\-/]*$/;

/**
 * Returns the local time of day as HH:MM at `now` (Unix seconds), or `undefined` if `tz` is not spelled
 * exactly as in the IANA database. The runtime ignores the case of letters, but other verifiers look for a
 * file with exactly this name.
 */
export function localClock(now: number, tz: string): string | undefined {
  if (!ZONE_NAME.test(tz)) return undefined;
  try {
    const local = Temporal.Instant.fromEpochMilliseconds(now * 1000).toZonedDateTimeISO(tz);
    if (local.timeZoneId !== tz) return undefined;
    return local.toPlainTime().toString({ smallestUnit: "minute" });
  } catch {
    return undefined;
  }
}

/** Returns why no time can be inside the window, or `undefined` if some time can be inside. */
export function timeWindowViolation({ start, end, tz }: TimeWindow): string | undefined {
  if (!CLOCK.test(start) || !CLOCK.test(end)) return "start and end must be HH:MM";
  return localClock(0, tz) === undefined ? "tz is not an IANA time zone" : undefined;
}

/** Returns whether a time of day (HH:MM) is inside the window. */
export function isInsideWindow({ start, end }: TimeWindow, clock: string): boolean {
  return start <= end ? start <= clock && clock <= end : clock >= start || clock <= end;
}
