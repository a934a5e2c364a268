import { createKeyCounts } from "../concurrency/key_counts.ts";
import { rateLimited } from "../errors.ts";

/** Maximum searches of one account that run at the same time in this process. Others wait. */
export const MAX_PER_ACCOUNT = 4;
/** Maximum searches of one person that run or wait in this process. */
export const MAX_PER_PERSON = 10;
const AGAIN_MS = 1_000;

type Searcher = { accountId: string; personId: string };

/** Runs a search as soon as it may run. Throws `rate_limited` if the person has too many under way. */
export type SearchLimit = <T>(who: Searcher, search: () => Promise<T>) => Promise<T>;

/** Creates the limits of searches. Nobody is refused because of the searches of other people. */
export function createSearchLimit(): SearchLimit {
  const accounts = createKeyCounts({ mostWaiting: Number.POSITIVE_INFINITY });
  const people = createKeyCounts();
  return async ({ accountId, personId }, search) => {
    if (!people.enter(personId, MAX_PER_PERSON)) {
      throw rateLimited(`You have ${MAX_PER_PERSON} searches under way: wait until one ends`, AGAIN_MS);
    }
    try {
      while (!accounts.enter(accountId, MAX_PER_ACCOUNT)) await accounts.nextEnd(accountId);
      try {
        return await search();
      } finally {
        accounts.leave(accountId);
      }
    } finally {
      people.leave(personId);
    }
  };
}
