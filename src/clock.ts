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

/** What `work` gives, or `late` once it takes longer than `ms` milliseconds. It is not ended by that. */
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

/**
 * What `work` gives; rejects with `late` once it takes longer than `ms` milliseconds. It is not ended by
 * that.
 */
export function inTime<T>(ms: number, work: Promise<T>, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
