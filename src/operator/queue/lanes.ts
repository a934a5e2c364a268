import type { Key } from "../kinds.ts";

/**
 * Keys that wait for a worker: urgent ones first as far as that starves nothing, and every namespace in turn.
 */
export type Lanes = {
  /** A key that waits already only becomes urgent, if it was not. */
  push(id: string, key: Key, urgent: boolean): void;
  /** The key that is next; `undefined` when none waits. */
  shift(): string | undefined;
  size(): number;
};

/** Of four turns one goes to ordinary keys, when any wait. */
const URGENT_TURNS = 3;

/** Creates empty lanes. */
export function createLanes(): Lanes {
  const urgent = createLane();
  const ordinary = createLane();
  let turns = 0;
  return {
    push(id, { namespace }, isUrgent) {
      if (urgent.has(id)) return;
      if (!isUrgent) {
        ordinary.push(id, namespace);
        return;
      }
      ordinary.remove(id);
      urgent.push(id, namespace);
    },
    shift() {
      const [first, second] = turns < URGENT_TURNS ? [urgent, ordinary] : [ordinary, urgent];
      turns = (turns + 1) % (URGENT_TURNS + 1);
      return first.shift() ?? second.shift();
    },
    size: () => urgent.size() + ordinary.size(),
  };
}

/** First in, first out within a namespace; the namespaces take turns. */
function createLane() {
  const namespaces = new Map<string, Set<string>>();
  const namespaceOf = new Map<string, string>();
  return {
    has: (id: string) => namespaceOf.has(id),
    size: () => namespaceOf.size,
    push(id: string, namespace: string): void {
      if (namespaceOf.has(id)) return;
      namespaceOf.set(id, namespace);
      const waiting = namespaces.get(namespace);
      if (waiting === undefined) {
        namespaces.set(namespace, new Set([id]));
      } else {
        waiting.add(id);
      }
    },
    remove(id: string): void {
      const namespace = namespaceOf.get(id);
      if (namespace === undefined) return;
      namespaceOf.delete(id);
      const waiting = namespaces.get(namespace);
      waiting?.delete(id);
      if (waiting?.size === 0) namespaces.delete(namespace);
    },
    shift(): string | undefined {
      const [turn] = namespaces;
      if (turn === undefined) return undefined;
      const [namespace, waiting] = turn;
      const [id] = waiting;
      namespaces.delete(namespace);
      if (id === undefined) return undefined;
      waiting.delete(id);
      namespaceOf.delete(id);
      if (waiting.size > 0) namespaces.set(namespace, waiting);
      return id;
    },
  };
}
