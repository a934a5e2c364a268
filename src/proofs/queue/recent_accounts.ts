const ROUND_MS = 1_000;

/** Which accounts called in the last second or two. */
export type RecentAccounts = {
  note(accountId: string): void;
  /** Whether no other account has called. */
  isAlone(accountId: string): boolean;
};

/** Nobody has called yet. */
export function createRecentAccounts(now: () => number = () => performance.now()): RecentAccounts {
  let [before, current] = [new Set<string>(), new Set<string>()];
  let until = now() + ROUND_MS;

  function turn(): void {
    const time = now();
    if (time < until) return;
    before = time < until + ROUND_MS ? current : new Set();
    current = new Set();
    until = time + ROUND_MS;
  }

  return {
    note(accountId) {
      turn();
      current.add(accountId);
    },
    isAlone(accountId) {
      turn();
      return [before, current].every((seen) => seen.size === 0 || (seen.size === 1 && seen.has(accountId)));
    },
  };
}
