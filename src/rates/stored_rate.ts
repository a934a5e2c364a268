import { RateLimiterPostgres } from "rate-limiter-flexible";
import type { Database } from "../db/database.ts";

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
