/** Collects the items of concurrent calls, and runs a function once for each batch. */
export type Batcher<T> = {
  /** Resolves when a run has handled the items. */
  work(items: readonly T[]): Promise<void>;
  /** Rejects the calls whose run has not begun. */
  rejectWaiting(reason: unknown): void;
};

type Call<T> = { items: readonly T[]; done: PromiseWithResolvers<void> };

/**
 * Creates a batcher. Calls that arrive during a run share the next run, with up to `most` items. A single
 * call may exceed that limit. Keeps a call's items together and in order. If a run fails, rejects its calls
 * with the error.
 */
export function createBatcher<T>(run: (items: T[]) => Promise<void>, most: number): Batcher<T> {
  const waiting: Call<T>[] = [];
  let isRunning = false;

  function take(): Call<T>[] {
    const taken = waiting.splice(0, 1);
    let count = taken[0]?.items.length ?? 0;
    for (let [next] = waiting; next !== undefined && count + next.items.length <= most; [next] = waiting) {
      waiting.shift();
      taken.push(next);
      count += next.items.length;
    }
    return taken;
  }

  async function runAll(): Promise<void> {
    isRunning = true;
    while (waiting.length > 0) {
      const calls = take();
      try {
        await run(calls.flatMap(({ items }) => items));
        for (const { done } of calls) done.resolve();
      } catch (error) {
        for (const { done } of calls) done.reject(error);
      }
    }
    isRunning = false;
  }

  return {
    work(items) {
      const done = Promise.withResolvers<void>();
      waiting.push({ items, done });
      if (!isRunning) void runAll();
      return done.promise;
    },
    rejectWaiting(reason) {
      for (const { done } of waiting.splice(0)) done.reject(reason);
    },
  };
}
