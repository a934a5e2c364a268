import type { Knex } from "knex";
import { unixSeconds } from "../clock.ts";

/**
 * Narrows a query of certificates to those whose end has not passed; they hold in the whole of their last
 * second, as the protocol counts time.
 */
export function notExpired<Q extends Knex.QueryBuilder>(query: Q, now: Date): Q {
  const second = lastSecond(now);
  query.andWhere((either) => either.whereNull("expires_at").orWhere("expires_at", ">=", second));
  return query;
}

/** What ended before this moment has expired by `now`. */
export function lastSecond(now: Date): Date {
  return new Date(unixSeconds(now) * 1000);
}
