import { RateLimiterPostgres, RateLimiterRes } from "rate-limiter-flexible";
import type { Database } from "../db/database.ts";
import { type ApiError, rateLimited } from "../errors.ts";

/** A limit of `points` in `seconds`. The window starts with the first use. Later uses do not extend it. */
export type StoredRate = { keyPrefix: string; points: number; seconds: number };

/** Returns a rate limit in the database, for all replicas. With 0 points, every use is refused. */
export function createStoredRate(
  db: Database,
  { keyPrefix, points, seconds }: StoredRate,
): RateLimiterPostgres {
  return new RateLimiterPostgres({
    storeClient: db,
    storeType: "knex",
    tableName: "rate_limits",
    tableCreated: true,
    clearExpiredByTimeout: false,
    keyPrefix,
    points,
    duration: seconds,
  });
}

/** Counts one use by a key. Throws `rate_limited` with `what` in its message if no points remain. */
export async function takeRate(rate: RateLimiterPostgres, key: string, what: string): Promise<void> {
  await consumeRate(rate, key, ({ msBeforeNext }) => rateLimited(what, msBeforeNext));
}

/** Counts one use by a key. Returns the remaining points. If none remain, throws the result of `refusal`. */
export async function consumeRate(
  rate: RateLimiterPostgres,
  key: string,
  refusal: (left: RateLimiterRes) => ApiError,
): Promise<RateLimiterRes> {
  try {
    return await rate.consume(key);
  } catch (refused) {
    throw refused instanceof RateLimiterRes ? refusal(refused) : refused;
  }
}
