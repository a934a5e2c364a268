/** Counts the running tasks of each key in this process, and lets callers wait until a task ends. */
export type KeyCounts = {
  count(key: string): number;
  /** Counts one more task, or returns false and counts nothing if `most` tasks are already running. */
  enter(key: string, most?: number): boolean;
  /** Counts one task less, and wakes all callers that wait for the key. */
  leave(key: string): void;
  /**
   * Resolves at the next call of `leave` for the key. Returns `undefined` if no task is running, or if
   * `mostWaiting` callers already wait for the key.
   */
  nextEnd(key: string): Promise<void> | undefined;
};

/** Returns empty counts. At most `mostWaiting` callers can wait for one key. Idle keys use no memory. */
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
