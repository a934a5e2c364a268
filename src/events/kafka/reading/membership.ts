import type { Clock } from "../../../clock.ts";

/** Keeps a reader a member of its group while it works on batches. */
export type Membership = {
  /** Works on a batch. `beat` gives a sign of life if one is due, and rejects once the group moved on. */
  during(beat: () => Promise<void>, work: () => Promise<void>): Promise<void>;
  /** Something was worked off. Rejects with why the batch is to be left, when the group has moved on. */
  progress(): Promise<void>;
};

/** Longer than anything takes that is worked off in one go. */
const STUCK_MS = 60_000;

/**
 * Gives signs of life by the clock too, every `beatMs`, as long as any batch is worked on: partitions wait
 * for each other's transactions, and a group gives those of a silent member away. When the group has moved
 * on, `left` is told why, once, so that what waits can be left, and batches under way end at their next
 * progress: the others of the group wait for that. Who has worked nothing off for a minute gives no more
 * signs, so that others take its partitions.
 */
export function keepMembership(deps: {
  clock: Clock;
  beatMs: number;
  left(reason: unknown): void;
}): Membership {
  const { clock, beatMs, left } = deps;
  const beats = new Set<() => Promise<void>>();
  let reason: unknown;
  let workedAt = 0;
  let timer: NodeJS.Timeout | undefined;
  let isBeating = false;

  async function beat(): Promise<void> {
    const [any] = beats;
    const isStuck = clock.now().getTime() - workedAt > STUCK_MS;
    if (any === undefined || isBeating || isStuck || reason !== undefined) return;
    isBeating = true;
    try {
      await any();
    } catch (error) {
      if (beats.size === 0) return;
      reason = error;
      left(error);
    } finally {
      isBeating = false;
    }
  }

  function begin(own: () => Promise<void>): void {
    if (beats.size === 0) {
      reason = undefined;
      workedAt = clock.now().getTime();
      timer = setInterval(() => void beat(), beatMs);
    }
    beats.add(own);
  }

  function end(own: () => Promise<void>): void {
    beats.delete(own);
    if (beats.size === 0) clearInterval(timer);
  }

  return {
    async during(given, work) {
      const own = () => given();
      begin(own);
      try {
        if (reason !== undefined) throw reason;
        await work();
      } finally {
        end(own);
      }
    },
    async progress() {
      workedAt = clock.now().getTime();
      await beat();
      if (reason !== undefined) throw reason;
    },
  };
}
