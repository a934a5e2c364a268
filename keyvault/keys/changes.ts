import { LRUCache } from "lru-cache";

/** When keys changed, counted in changes: says whether what was read of some of them is still true. */
export type Changes = {
  /** The number of changes so far. */
  count(): number;
  /** Notes a change of one key, or of whatever there is. */
  note(keyId?: string): void;
  /**
   * Whether the key changed after the first `count` changes. May say yes for one that did not when very many
   * others changed meanwhile, never no for one that did.
   */
  happened(keyId: string, count: number): boolean;
};

/** Changes of which the last ones of `most` keys are remembered one by one. */
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
