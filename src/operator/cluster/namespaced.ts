import type { WatchState } from "../metrics/operator_metrics.ts";
import { listedObject, type Reflector } from "./reflector.ts";

/**
 * The copy of all objects of one kind: of the whole cluster, or together those of some namespaces, each read
 * by itself, for which a role in each of them is enough. `create` is given a collection's path.
 */
export function namespacedCopy<T>(
  path: string,
  namespaces: readonly string[] | undefined,
  create: (path: string) => Reflector<T>,
): Reflector<T> {
  if (namespaces === undefined) return create(path);
  const copies = new Map(namespaces.map((name) => [name, create(pathIn(path, name))]));
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

/** The path of a collection in one namespace, or of one of its objects there. */
export function pathIn(path: string, namespace: string, name?: string): string {
  const own = path.replace(/[^/]*$/, `namespaces/${namespace}/$&`);
  return name === undefined ? own : `${own}/${name}`;
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
