/**
 * Limits an action to a part of the day, both minutes included; an end before the start wraps midnight (wire
 * format §7).
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
 * Local time of day as HH:MM at `now` (Unix seconds); `undefined` when `tz` names no zone of the IANA
 * database. The runtime would take a name in any case; other verifiers look for a file of that very name, so
 * only the database's own spelling counts.
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

/** What makes the window one that no moment can be inside of; `undefined` when there is nothing. */
export function timeWindowViolation({ start, end, tz }: TimeWindow): string | undefined {
  if (!CLOCK.test(start) || !CLOCK.test(end)) return "start and end must be HH:MM";
  return localClock(0, tz) === undefined ? "tz is not an IANA time zone" : undefined;
}

/** Whether a clock reading lies inside the window. */
export function isInsideWindow({ start, end }: TimeWindow, clock: string): boolean {
  return start <= end ? start <= clock && clock <= end : clock >= start || clock <= end;
}
