import { LRUCache } from "lru-cache";

/** Keys and tenants that are remembered, those noted last. */
const MOST = 200_000;

/** What a row's number says beside what was seen: `overtaken` is one that was the newest when it was read, and is not any more. */
export type Age = "newest" | "earlier" | "overtaken";

/**
 * The highest `state_seq` of each name that this process has seen proven or has written itself, so that an earlier state put back in the
 * database is known also when the audit record of the change was altered there. It is this process's memory and ends with it: restored data
 * start anew.
 */
export type Seen = {
  /** The present moment, counted in what was noted. */
  now(): number;
  /** Notes a state that was proven, or was made durable. */
  note(name: string, seq: number): void;
  /** How a state compares that was read at the moment `readAt` or later. */
  age(name: string, seq: number, readAt: number): Age;
  /** Forgets what lies beyond the chain's end: it was read, but the database lost it before this process was told that it is durable. */
  endAt(seq: number): void;
};

/** A memory of the `most` names that were noted last. */
export function createSeen(most = MOST): Seen {
  const newest = new LRUCache<string, { seq: number; at: number }>({ max: most });
  let count = 0;

  return {
    now: () => count,
    note(name, seq) {
      const known = newest.get(name);
      if (known !== undefined && known.seq >= seq) return;
      count += 1;
      newest.set(name, { seq, at: count });
    },
    age(name, seq, readAt) {
      const known = newest.peek(name);
      if (known === undefined || seq >= known.seq) return "newest";
      return known.at > readAt ? "overtaken" : "earlier";
    },
    endAt(seq) {
      for (const [name, known] of [...newest.entries()]) if (known.seq > seq) newest.delete(name);
    },
  };
}
