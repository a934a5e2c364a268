import { LRUCache } from "lru-cache";
import type { Clock } from "./clock.ts";

/** What a pace says of a key: whether one more is admitted, how many more are, and milliseconds until one and until all are. */
export type Paced = { admitted: boolean; remaining: number; waitMs: number; resetMs: number };

/** So many a minute for each key, all at once if need be; what was used comes back evenly (GCRA). Kept in this process. */
export type Pace = {
  readonly perMinute: number;
  /** Counts one when it is admitted. What is not admitted counts nothing. */
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
  const interval = MINUTE_MS / Math.max(perMinute, 1);
  /** When all that was used has come back, in milliseconds since 1970. */
  const usedUntil = new LRUCache<string, number>({ max: REMEMBERED });
  const judge = (used: number): Paced => {
    const free = perMinute === 0 ? 0 : Math.floor((MINUTE_MS - used) / interval + ROUNDING);
    return {
      admitted: free >= 1,
      remaining: Math.max(0, free),
      waitMs: free >= 1 ? 0 : perMinute === 0 ? MINUTE_MS : used + interval - MINUTE_MS,
      resetMs: used,
    };
  };
  /** More than a minute's worth is never used: then the clock was set back, and what it said before means nothing. */
  const usedOf = (key: string, now: number): number => {
    const used = Math.max(0, (usedUntil.get(key) ?? 0) - now);
    return used > MINUTE_MS + ROUNDING ? 0 : used;
  };
  return {
    perMinute,
    look: (key) => judge(usedOf(key, clock.now().getTime())),
    take(key) {
      const now = clock.now().getTime();
      const used = usedOf(key, now);
      if (!judge(used).admitted) return judge(used);
      usedUntil.set(key, now + used + interval);
      return { ...judge(used + interval), admitted: true };
    },
  };
}

/** Sums of intervals that are no whole milliseconds come out a little off. */
const ROUNDING = 1e-6;
