import { RateLimiterPostgres, RateLimiterRes } from "rate-limiter-flexible";
import type { Database } from "../db/database.ts";
import { type ApiError, rateLimited } from "../errors.ts";

/**
 * How often something may happen: `points` times in `seconds`, which begin with the first time and are not
 * moved by later ones.
 */
export type StoredRate = { keyPrefix: string; points: number; seconds: number };

/**
 * A rate that is kept in the database, so that it holds across replicas and restarts. 0 points refuse
 * everything.
 */
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

/** Counts one for a key. Throws `rate_limited`, which says `what`, when the key has had its points. */
export async function takeRate(rate: RateLimiterPostgres, key: string, what: string): Promise<void> {
  await consumeRate(rate, key, ({ msBeforeNext }) => rateLimited(what, msBeforeNext));
}

/** Counts one for a key, and returns what is left to it. Throws `refusal` when the key has had its points. */
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
