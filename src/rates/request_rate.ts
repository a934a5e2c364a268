import type { Database } from "../db/database.ts";
import { createStoredRate, takeRate } from "./stored_rate.ts";

const DAY_SECONDS = 86_400;

/** The limit of delegation requests that a person files for an account in a day, for all replicas. */
export type RequestRate = {
  /**
   * Files a request. Without calling `file`, throws `rate_limited` with `Retry-After` at the limit. A request
   * that fails does not count.
   */
  within<T>(of: { accountId: string; personId: string }, file: () => Promise<T>): Promise<T>;
};

/** Creates the limit. With 0, it refuses every request. */
export function createRequestRate(db: Database, perDay: number): RequestRate {
  const rate = createStoredRate(db, { keyPrefix: "requests_day", points: perDay, seconds: DAY_SECONDS });
  return {
    async within({ accountId, personId }, file) {
      const key = `${accountId}/${personId}`;
      await takeRate(rate, key, "You requested too many delegations in a day");
      try {
        return await file();
      } catch (error) {
        await rate.giveBack(key).catch(() => undefined);
        throw error;
      }
    },
  };
}
