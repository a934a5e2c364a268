import { LRUCache } from "lru-cache";

/**
 * A number of calls a second, over time; a burst of twice as many is let through after a rest. 0 sets no
 * bound.
 */
export type Rate = number;

/**
 * A bucket by name. `burst` is how many are let through in one go after a rest, where that is not twice the
 * rate.
 */
export type Wanted = { name: string; rate: Rate; burst?: number };

/** Bounds on how often something may happen, by name. */
export type Rates = {
  /**
   * Takes one from every named bucket, or from none: then gives the seconds until all of them would have one.
   * Undefined when it may happen.
   */
  take(wanted: readonly Wanted[]): number | undefined;
};

type Bucket = { left: number; at: number };

const BURST = 2;
const BUCKETS = 200_000;

/** Token buckets. `elapsed` is a clock that never goes back, in milliseconds. */
export function createRates(elapsed: () => number): Rates {
  // A bound by size: one by number takes its memory, 5.6 MB, before there is anything to remember.
  const buckets = new LRUCache<string, Bucket>({ maxSize: BUCKETS, sizeCalculation: () => 1 });

  function fill({ name, rate, burst = rate * BURST }: Wanted, now: number): Bucket {
    const known = buckets.get(name) ?? { left: burst, at: now };
    const left = Math.min(burst, known.left + ((now - known.at) / 1000) * rate);
    return { left, at: now };
  }

  return {
    take(wanted) {
      const now = elapsed();
      const bounded = wanted.filter(({ rate }) => rate > 0);
      const filled = bounded.map((one) => ({ ...one, bucket: fill(one, now) }));
      const waits = filled.map(({ rate, bucket }) => (1 - bucket.left) / rate);
      const longest = Math.max(0, ...waits);
      for (const { name, bucket } of filled) {
        buckets.set(name, { ...bucket, left: bucket.left - (longest > 0 ? 0 : 1) });
      }
      return longest > 0 ? longest : undefined;
    },
  };
}
