import type { WatchState } from "../metrics/operator_metrics.ts";
import { listedObject, type Reflector } from "./reflector.ts";

/**
 * The copy of all objects of one kind: of the whole cluster, or together those of some namespaces, each read
 * by itself, for which a role in each of them is enough.
 */
export function namespacedCopy<T>(
  namespaces: readonly string[] | undefined,
  create: (namespace?: string) => Reflector<T>,
): Reflector<T> {
  if (namespaces === undefined) return create();
  const copies = new Map(namespaces.map((name) => [name, create(name)]));
  const all = [...copies.values()];
  return {
    async start() {
      await Promise.all(all.map((copy) => copy.start()));
    },
    get: (namespace, name) => copies.get(namespace)?.get(namespace, name),
    values: () => all.flatMap((copy) => copy.values()),
    state: () => togetherState(all.map((copy) => copy.state())),
    note(answer) {
      copies.get(listedObject.parse(answer).metadata.namespace)?.note(answer);
    },
    noteEnd: (object) => copies.get(object.namespace)?.noteEnd(object),
    async stop() {
      await Promise.all(all.map((copy) => copy.stop()));
    },
  };
}

/** Of several copies the worst, and all that happened. */
export function togetherState(states: readonly WatchState[]): WatchState {
  return {
    resource: states[0]?.resource ?? "",
    isSynced: states.every(({ isSynced }) => isSynced),
    activeAt: Math.min(...states.map(({ activeAt }) => activeAt)),
    lists: states.reduce((total, { lists }) => total + lists, 0),
    failures: states.reduce((total, { failures }) => total + failures, 0),
  };
}
