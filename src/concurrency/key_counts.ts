/** Counts what is running for each key in this process, and lets callers wait for some of it to end. */
export type KeyCounts = {
  count(key: string): number;
  /** Counts one more and returns true. Returns false, without counting, when `most` are running already. */
  enter(key: string, most?: number): boolean;
  /** Counts one less, and wakes all that wait for the key. */
  leave(key: string): void;
  /**
   * Resolves when the next one leaves, or is `undefined` when `mostWaiting` wait for the key already or
   * nothing is running.
   */
  nextEnd(key: string): Promise<void> | undefined;
};

/** Empty counts. At most `mostWaiting` callers wait for one key. A key with nothing running takes no room. */
export function createKeyCounts({ mostWaiting = 0 }: { mostWaiting?: number } = {}): KeyCounts {
  const keys = new Map<string, { count: number; waiting: (() => void)[] }>();
  return {
    count: (key) => keys.get(key)?.count ?? 0,
    enter(key, most = Number.POSITIVE_INFINITY) {
      const entry = keys.get(key);
      if ((entry?.count ?? 0) >= most) return false;
      if (entry === undefined) keys.set(key, { count: 1, waiting: [] });
      else entry.count += 1;
      return true;
    },
    leave(key) {
      const entry = keys.get(key);
      if (entry === undefined) return;
      entry.count -= 1;
      if (entry.count === 0) keys.delete(key);
      for (const wake of entry.waiting.splice(0)) wake();
    },
    nextEnd(key) {
      const waiting = keys.get(key)?.waiting;
      if (waiting === undefined || waiting.length >= mostWaiting) return undefined;
      return new Promise((resolve) => waiting.push(resolve));
    },
  };
}
