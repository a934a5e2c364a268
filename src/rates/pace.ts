import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";
import { atMost } from "../concurrency/at_most.ts";

/**
 * The rate state of a key. `admitted` is true if one more call is admitted, and `remaining` is the number of
 * further calls. `waitMs` is the time until one call is admitted, and `resetMs` the time until all are.
 */
export type Paced = { admitted: boolean; remaining: number; waitMs: number; resetMs: number };

/**
 * A limit of calls per minute for each key, in this process. A key can use its whole limit in one moment.
 * Used calls become available again evenly over time (GCRA).
 */
export type Pace = {
  readonly perMinute: number;
  /** Counts a call if it is admitted. A rejected call is not counted. */
  take(key: string): Paced;
  /** Returns the state without counting a call. */
  look(key: string): Paced;
};

/** Limit for all connections of one account together, as a multiple of the limit for one connection. */
export const ACCOUNT_SHARE = 4;

const MINUTE_MS = 60_000;
const REMEMBERED = 100_000;

/** Returns a limit of `perMinute` calls (0 admits none) for each key. Stores the 100,000 last used keys. */
export function createPace({ perMinute, clock }: { perMinute: number; clock: Clock }): Pace {
  // Whole numbers avoid rounding errors. One call costs `MINUTE_MS` units, and each millisecond restores
  // `perMinute` units.
  const all = perMinute * MINUTE_MS;
  const known = new LRUCache<string, Used>(atMost(REMEMBERED));
  const judge = (used: number): Paced => {
    const free = Math.floor((all - used) / MINUTE_MS);
    return {
      admitted: free >= 1,
      remaining: free,
      waitMs: free >= 1 ? 0 : perMinute === 0 ? MINUTE_MS : (used + MINUTE_MS - all) / perMinute,
      resetMs: used / Math.max(perMinute, 1),
    };
  };
  /** Returns the used units of a key. They exceed `all` only after the clock was set back. Then returns 0. */
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

/** The used units of a key at the time `at`, in milliseconds since 1970. */
type Used = { used: number; at: number };
