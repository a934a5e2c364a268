import { uptime } from "node:os";

/** The only source of time in this process. All other code receives a time `now` or a `Clock`. */
export type Clock = {
  now(): Date;
};

/** A clock that knows whether two machines agree on the time. */
export type ComparedClock = Clock & {
  /**
   * Returns the time if this process has compared its machine's clock with the clock that it follows, and the
   * two differ by at most 5 seconds. Otherwise one of them is wrong, and the result is `undefined`. Then
   * nothing may be deleted or ended because of its age.
   */
  agreed(): Date | undefined;
};

/** The machine's clock. Roles use it only to compare it with the clock that they follow. */
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

/** A clock that starts at 1970 with the process and never jumps. For waits that a jump must not change. */
export const elapsedClock: Clock = { now: () => new Date(machineTime.elapsed()) };

/** Converts a time to whole Unix seconds, rounded down like the protocol's timestamps. */
export function unixSeconds(time: Date): number {
  return Math.floor(time.getTime() / 1000);
}

/** Seconds by which clocks may differ without a refusal. */
export const CLOCK_TOLERANCE_SECONDS = 2;

/**
 * Returns the Unix seconds for a statement that this service signs now. They are dated back, so that the
 * statement is already valid for a verifier whose clock is behind.
 */
export function signingSeconds(now: Date): number {
  return unixSeconds(now) - CLOCK_TOLERANCE_SECONDS;
}

/** Returns the time `seconds` after `time`, or before it if `seconds` is negative. */
export function addSeconds(time: Date, seconds: number): Date {
  return new Date(time.getTime() + seconds * 1000);
}

/** Returns the result of `work`, or `late` after `ms` milliseconds. Does not cancel `work`. */
export async function within<T>(ms: number, work: Promise<T>, late: T): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<T>((resolve) => {
    timer = setTimeout(resolve, ms, late);
  });
  try {
    return await Promise.race([work, over]);
  } finally {
    clearTimeout(timer);
  }
}

/** Returns the result of `work`. Rejects with `late` after `ms` milliseconds. Does not cancel `work`. */
export function inTime<T>(ms: number, work: Promise<T>, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
