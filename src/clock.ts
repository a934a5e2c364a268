/** The only place of this process that reads the time. Everything else takes `now` or a `Clock`. */
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

/** The time `seconds` after `time` (before it, when negative). */
export function addSeconds(time: Date, seconds: number): Date {
  return new Date(time.getTime() + seconds * 1000);
}
