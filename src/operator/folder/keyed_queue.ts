/** Lets work on one name run one after the other; work on different names runs at the same time. */
export type Turns = <T>(name: string, work: () => Promise<T>) => Promise<T>;

/** Creates turns for any number of names. */
export function createTurns(): Turns {
  const last = new Map<string, Promise<unknown>>();
  return (name, work) => {
    const before = last.get(name) ?? Promise.resolve();
    const turn = before.then(work, work);
    const ended = turn
      .catch(() => undefined)
      .then(() => {
        if (last.get(name) === ended) last.delete(name);
      });
    last.set(name, ended);
    return turn;
  };
}
