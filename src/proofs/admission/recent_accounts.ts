/** Which accounts called a short while ago, and with how many calls at a time. */
export type RecentAccounts = {
  /** An account has so many calls now, at work or waiting: one at least. */
  note(accountId: string, calls: number): void;
  /** The most calls that one other account had at a time; 0 when no other has called. */
  mostOfOthers(accountId: string): number;
};

type Noted = { accountId: string; calls: number };
/** Who had the most calls at a time and who of the others had, which is all that is ever asked for. */
type Round = Noted[];

/** Nobody has called yet. What is noted counts for `roundMs` milliseconds, and for twice as long at most. */
export function createRecentAccounts(
  roundMs: number,
  now: () => number = () => performance.now(),
): RecentAccounts {
  let [before, current]: [Round, Round] = [[], []];
  let until = now() + roundMs;

  function turn(): void {
    const time = now();
    if (time < until) return;
    before = time < until + roundMs ? current : [];
    current = [];
    until = time + roundMs;
  }

  function mostIn([first, second]: Round, accountId: string): number {
    return (first?.accountId === accountId ? second?.calls : first?.calls) ?? 0;
  }

  return {
    note(accountId, calls) {
      turn();
      const known = current.find((noted) => noted.accountId === accountId);
      if (known === undefined) current.push({ accountId, calls });
      else known.calls = Math.max(known.calls, calls);
      current.sort((a, b) => b.calls - a.calls).splice(2);
    },
    mostOfOthers(accountId) {
      turn();
      return Math.max(mostIn(before, accountId), mostIn(current, accountId));
    },
  };
}
