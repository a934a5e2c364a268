import { LRUCache } from "lru-cache";

/**
 * Calls per second, averaged over time. A burst after a pause may have twice that number. 0 means no limit.
 */
export type Rate = number;

/** A named bucket to take from. `burst` is the largest burst after a pause, by default twice the rate. */
export type Wanted = { name: string; rate: Rate; burst?: number };

/** Limits on how often something may happen, by name. */
export type Rates = {
  /**
   * Takes one token from every named bucket, or none if a bucket is empty. Returns the seconds until every
   * bucket has one, or `undefined` if the call may proceed.
   */
  take(wanted: readonly Wanted[]): number | undefined;
};

type Bucket = { left: number; at: number };

const BURST = 2;
const BUCKETS = 200_000;

/** Returns an empty set of token buckets. `elapsed` is a monotonic clock in milliseconds. */
export function createRates(elapsed: () => number): Rates {
  // Uses `maxSize`, because with `max` the cache allocates all its memory, 5.6 MB, at its creation.
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
