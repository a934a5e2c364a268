import { uptime } from "node:os";

/**
 * The only source of the current time in this process. A function whose decision depends on the time receives
 * it as `now`.
 */
export type Clock = {
  now(): Date;
};

/** A clock that knows whether two machines agree on the time. */
export type ComparedClock = Clock & {
  /**
   * Returns the time if the machine's clock and the database's differ by at most 5 seconds. Otherwise one of
   * them is wrong, and the result is `undefined`. Then nothing may be erased because of its age.
   */
  agreed(): Date | undefined;
};

/** The machine's clock. */
export const systemClock: Clock = { now: () => new Date() };

/** A machine's three measures of time, in milliseconds. */
export type MachineTime = {
  /** Unix time. Jumps if somebody sets the clock. */
  wall(): number;
  /** Time that only moves forward, at the rate of real time. Stands still while the machine is suspended. */
  elapsed(): number;
  /** Like `elapsed`, but continues while the machine is suspended. Slower to read. */
  uptime(): number;
};

/** The time of this machine. */
export const machineTime: MachineTime = {
  wall: () => Date.now(),
  elapsed: () => performance.now(),
  uptime: () => uptime() * 1000,
};

/** Converts a time to whole Unix seconds, rounded down like the protocol's timestamps. */
export function unixSeconds(time: Date): number {
  return Math.floor(time.getTime() / 1000);
}

/** Returns the time `days` after `now`. */
export function daysAfter(now: Date, days: number): Date {
  return new Date(now.getTime() + days * 86_400_000);
}
