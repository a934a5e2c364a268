/**
 * Runs of `run`, one at a time for each name. Callers that arrive during a run share the next one, so there
 * is at most one run and one waiting, and every answer is from a run that began after its call.
 */
export function createCoalescedRuns<T>(run: (name: string) => Promise<T>): (name: string) => Promise<T> {
  const ends = new Map<string, Promise<void>>();
  const waiting = new Map<string, Promise<T>>();

  function begin(name: string): Promise<T> {
    const running = run(name);
    const end = (): void => void ends.delete(name);
    ends.set(name, running.then(end, end));
    return running;
  }

  return (name) => {
    const next = waiting.get(name);
    if (next !== undefined) return next;
    const end = ends.get(name);
    if (end === undefined) return begin(name);
    const shared = end.then(() => {
      waiting.delete(name);
      return begin(name);
    });
    waiting.set(name, shared);
    return shared;
  };
}
