import { createKeyCounts } from "../concurrency/key_counts.ts";
import { rateLimited } from "../errors.ts";

/** Maximum searches of one account that run at the same time in this process. Others wait for their turn. */
export const MOST_OF_ACCOUNT = 4;
/** Maximum searches of one person that run or wait in this process. */
export const MOST_OF_PERSON = 10;
const AGAIN_MS = 1_000;

type Searcher = { accountId: string; personId: string };

/** Runs a search in its turn. Throws `rate_limited` if the person has too many searches under way. */
export type SearchTurns = <T>(who: Searcher, search: () => Promise<T>) => Promise<T>;

/** Creates the turns of searches. Nobody is refused because of the searches of other people. */
export function createSearchTurns(): SearchTurns {
  const accounts = createKeyCounts({ mostWaiting: Number.POSITIVE_INFINITY });
  const people = createKeyCounts();
  return async ({ accountId, personId }, search) => {
    if (!people.enter(personId, MOST_OF_PERSON)) {
      throw rateLimited(`You have ${MOST_OF_PERSON} searches under way: wait until one ends`, AGAIN_MS);
    }
    try {
      while (!accounts.enter(accountId, MOST_OF_ACCOUNT)) await accounts.nextEnd(accountId);
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
