/**
 * The only source of the current time in this process. A function whose decision depends on the time receives
 * it as `now`.
 */
export type Clock = {
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
