/** Lets work on one name run one after the other; work on different names runs at the same time. */
export type KeyedQueue = <T>(name: string, work: () => Promise<T>) => Promise<T>;

/** A queue for any number of names. */
export function createKeyedQueue(): KeyedQueue {
  const last = new Map<string, Promise<unknown>>();
  return (name, work) => {
    const before = last.get(name) ?? Promise.resolve();
    const result = before.then(work, work);
    const ended = result
      .catch(() => undefined)
      .then(() => {
        if (last.get(name) === ended) last.delete(name);
      });
    last.set(name, ended);
    return result;
  };
}
