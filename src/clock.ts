/** The only source of time in this process. All other code receives a time `now` or a `Clock`. */
export type Clock = {
  now(): Date;
};

/** The machine's clock. */
export const systemClock: Clock = { now: () => new Date() };

/** Converts a time to whole Unix seconds, rounded down like the protocol's timestamps. */
export function unixSeconds(time: Date): number {
  return Math.floor(time.getTime() / 1000);
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
