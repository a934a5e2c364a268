import { LRUCache } from "lru-cache";

/** Counts changes of keys, to decide whether data read earlier is still current. */
export type Changes = {
  count(): number;
  /** Counts a change of one key, or of all keys if `keyId` is omitted. */
  note(keyId?: string): void;
  /**
   * Returns whether the key changed after `count` had the given value. If very many other keys changed, it
   * may return true for an unchanged key. It never returns false for a changed key.
   */
  happened(keyId: string, count: number): boolean;
};

/** Returns a counter that tracks the latest changes of up to `most` keys individually. */
export function createChanges(most: number): Changes {
  let count = 0;
  let ofAll = 0;
  const last = new LRUCache<string, number>({
    max: most,
    dispose: (at, _, reason) => {
      if (reason === "evict") ofAll = Math.max(ofAll, at);
    },
  });

  return {
    count: () => count,
    note(keyId) {
      count += 1;
      if (keyId !== undefined) {
        last.set(keyId, count);
        return;
      }
      ofAll = count;
      last.clear();
    },
    happened: (keyId, before) => Math.max(ofAll, last.get(keyId) ?? 0) > before,
  };
}
