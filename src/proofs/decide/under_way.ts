/** What is under way for each key, and the callers that wait for some of it to end. */
export type UnderWay = {
  count(key: string): number;
  enter(key: string): void;
  /** One has ended: all that wait for the key look again. */
  leave(key: string): void;
  /**
   * Resolves when the next one ends; `undefined` when as many wait for it already as may. Something must be
   * under way.
   */
  nextEnd(key: string): Promise<void> | undefined;
};

/**
 * Nothing under way yet. At most `mostWaiting` wait for a key. A key with nothing under way takes no room.
 */
export function createUnderWay({ mostWaiting }: { mostWaiting: number }): UnderWay {
  const keys = new Map<string, { count: number; waiting: (() => void)[] }>();
  return {
    count: (key) => keys.get(key)?.count ?? 0,
    enter(key) {
      const entry = keys.get(key) ?? { count: 0, waiting: [] };
      entry.count += 1;
      keys.set(key, entry);
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
