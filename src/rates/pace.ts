import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";

/**
 * What a pace says of a key: whether one more is admitted, how many more are, and milliseconds until one and
 * until all are.
 */
export type Paced = { admitted: boolean; remaining: number; waitMs: number; resetMs: number };

/**
 * So many a minute for each key, all in one go if need be; what was used is restored evenly (GCRA). Kept in
 * this process.
 */
export type Pace = {
  readonly perMinute: number;
  /** Counts one when it is admitted. A call that is not admitted is not counted. */
  take(key: string): Paced;
  /** Counts nothing. */
  look(key: string): Paced;
};

/** Connections of one account together have so many times what one of them has. */
export const ACCOUNT_SHARE = 4;

const MINUTE_MS = 60_000;
const REMEMBERED = 100_000;

/** A pace of `perMinute`; 0 admits nothing. The keys that were used last are remembered, 100,000 of them. */
export function createPace({ perMinute, clock }: { perMinute: number; clock: Clock }): Pace {
  // Whole numbers, so that nothing is rounded: one use costs a minute's milliseconds, and each millisecond
  // gives `perMinute` back.
  const all = perMinute * MINUTE_MS;
  // A bound by size: one by number takes its memory, 2.8 MB, before there is anything to remember.
  const known = new LRUCache<string, Used>({ maxSize: REMEMBERED, sizeCalculation: () => 1 });
  const judge = (used: number): Paced => {
    const free = Math.floor((all - used) / MINUTE_MS);
    return {
      admitted: free >= 1,
      remaining: free,
      waitMs: free >= 1 ? 0 : perMinute === 0 ? MINUTE_MS : (used + MINUTE_MS - all) / perMinute,
      resetMs: used / Math.max(perMinute, 1),
    };
  };
  /** More than all is never used: then the clock was set back, and what it said before means nothing. */
  const usedOf = (key: string, now: number): number => {
    const { used, at } = known.get(key) ?? { used: 0, at: now };
    const left = Math.max(0, used - (now - at) * perMinute);
    return left > all ? 0 : left;
  };
  return {
    perMinute,
    look: (key) => judge(usedOf(key, clock.now().getTime())),
    take(key) {
      const now = clock.now().getTime();
      const used = usedOf(key, now);
      if (!judge(used).admitted) return judge(used);
      known.set(key, { used: used + MINUTE_MS, at: now });
      return { ...judge(used + MINUTE_MS), admitted: true };
    },
  };
}

/** What was used of a pace, as of a moment in milliseconds since 1970. */
type Used = { used: number; at: number };
