/** Runs the work of each key one at a time, in the order of the calls. Keys do not wait for each other. */
export type PerKeyQueue = <T>(key: string, work: () => Promise<T>) => Promise<T>;

/** Returns an empty queue. If one task fails, the next one still runs. */
export function createPerKeyQueue(): PerKeyQueue {
  const last = new Map<string, Promise<unknown>>();
  return (key, work) => {
    const before = last.get(key) ?? Promise.resolve();
    const result = before.then(work, work);
    const ended = result
      .catch(() => undefined)
      .then(() => {
        if (last.get(key) === ended) last.delete(key);
      });
    last.set(key, ended);
    return result;
  };
}

/**
 * Returns a function that calls `run` for each key, but never twice at the same time for one key. Calls
 * during a run share the next run, so every caller gets the result of a run that began after its call.
 */
export function shareNextRun<T>(run: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const oneAtATime = createPerKeyQueue();
  const waiting = new Map<string, Promise<T>>();
  return (key) => {
    const known = waiting.get(key);
    if (known !== undefined) return known;
    const next = oneAtATime(key, () => {
      waiting.delete(key);
      return run(key);
    });
    waiting.set(key, next);
    return next;
  };
}
