/**
 * The only place of this process that reads the time. Decisions take `now`; long-lived parts take a `Clock`.
 */
export type Clock = {
  /** The current time. */
  now(): Date;
};

/** The machine's clock. */
export const systemClock: Clock = { now: () => new Date() };

/** Whole Unix seconds of a time, rounded down, as the protocol's timestamps are. */
export function unixSeconds(time: Date): number {
  return Math.floor(time.getTime() / 1000);
}

/** The moment `days` after `now`. */
export function daysAfter(now: Date, days: number): Date {
  return new Date(now.getTime() + days * 86_400_000);
}
