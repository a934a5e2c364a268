import type { Database } from "../db/database.ts";
import { type ApiError, rateLimited } from "../errors.ts";

/** A limit of `points` in `seconds`. The window starts with the first use. Later uses do not extend it. */
export type StoredRateSettings = { keyPrefix: string; points: number; seconds: number };

/** The state after a use: the remaining uses, and the milliseconds until all are available again. */
export type RateLeft = { remaining: number; resetMs: number };

/** A rate limit in the database, for all replicas. */
export type StoredRate = {
  readonly points: number;
  /** Counts one use by a key. `isRefused` is true if no points remained. */
  take(key: string): Promise<RateLeft & { isRefused: boolean }>;
  /** Undoes one use by a key. */
  giveBack(key: string): Promise<void>;
};

/** The database's time in Unix milliseconds. So no replica's clock can end a window early. */
const NOW = "(extract(epoch from clock_timestamp()) * 1000)::bigint";

/** Returns a rate limit in the database. With 0 points, every use is refused. */
export function createStoredRate(
  db: Database,
  { keyPrefix, points, seconds }: StoredRateSettings,
): StoredRate {
  return {
    points,
    async take(key) {
      const { rows } = await db.raw<{ rows: [{ used: number; reset_ms: number }] }>(
        `insert into rate_limits as r (key, points, expire)
         select :key, 1, now_ms + :ms from (select ${NOW} as now_ms) as t
         on conflict (key) do update set
           points = case when r.expire <= ${NOW} then 1 else r.points + 1 end,
           expire = case when r.expire <= ${NOW} then excluded.expire else r.expire end
         returning points as used, greatest(expire - ${NOW}, 0) as reset_ms`,
        { key: `${keyPrefix}:${key}`, ms: seconds * 1000 },
      );
      const [{ used, reset_ms: resetMs }] = rows;
      return { isRefused: used > points, remaining: Math.max(points - used, 0), resetMs };
    },
    async giveBack(key) {
      await db.raw(`update rate_limits set points = points - 1 where key = :key and points > 0`, {
        key: `${keyPrefix}:${key}`,
      });
    },
  };
}

/** Counts one use by a key. Throws `rate_limited` with `what` in its message if no points remain. */
export async function takeRate(rate: StoredRate, key: string, what: string): Promise<void> {
  await consumeRate(rate, key, ({ resetMs }) => rateLimited(what, resetMs));
}

/** Counts one use by a key. Returns the remaining points. If none remain, throws the result of `refusal`. */
export async function consumeRate(
  rate: StoredRate,
  key: string,
  refusal: (left: RateLeft) => ApiError,
): Promise<RateLeft> {
  const left = await rate.take(key);
  if (left.isRefused) throw refusal(left);
  return left;
}
