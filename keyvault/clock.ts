/**
 * The only source of the current time in this process. Functions that decide take the time as `now`.
 * Long-lived objects keep a `Clock`.
 */
export type Clock = {
  /** Returns the current time. */
  now(): Date;
};

/** The machine's clock. */
export const systemClock: Clock = { now: () => new Date() };

/** Converts a time to whole Unix seconds, rounded down like the protocol's timestamps. */
export function unixSeconds(time: Date): number {
  return Math.floor(time.getTime() / 1000);
}

/** Returns the time `days` after `now`. */
export function daysAfter(now: Date, days: number): Date {
  return new Date(now.getTime() + days * 86_400_000);
}
