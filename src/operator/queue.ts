import { type Backoff, backoff } from "../concurrency/backoff.ts";
import { type Key, keyText } from "./kinds.ts";

/** Objects that are worked on at the same time. */
export const WORKERS = 10;

/** From half of the wait on, by chance. */
const JITTER = [0.5, 1] as const;
/** Milliseconds between tries of ordinary work. */
const ORDINARY: Backoff = { base: 1000, cap: 300_000, jitter: JITTER };
/** For what takes authority away or gives what was just approved. */
const URGENT: Backoff = { base: 250, cap: 30_000, jitter: JITTER };

/**
 * What a run of a key ends with: nothing more to do until it is added, a time after which to run again
 * (milliseconds), or a failure that is tried again with growing delays, no earlier than `notBeforeMs`.
 */
export type Visit =
  | { afterMs?: number; retry?: never }
  | { retry: true; urgent?: boolean; notBeforeMs?: number };

/** How a visit ended, as controller-runtime calls it. */
export function resultOf(visit: Visit): "success" | "requeue_after" | "error" {
  if (visit.retry) return "error";
  return visit.afterMs === undefined ? "success" : "requeue_after";
}

/**
 * A queue of keys with the semantics of client-go's: a key never runs twice at the same time, adding it while
 * it waits changes nothing, adding it while it runs causes exactly one more run. Namespaces take turns.
 */
export type Queue = {
  /** Has the key run as soon as a worker is free. */
  add(key: Key, urgent?: boolean): void;
  /** Forgets the failures of a key, so that its next retry is soon. */
  forget(key: Key): void;
  /** Starts no more runs and resolves when those under way have ended. */
  stop(): Promise<void>;
  /** Keys that wait for a worker now, and keys that run. */
  depth(): { waiting: number; running: number };
};

/** Hears of what the queue does, and returns immediately. */
export type QueueObserver = {
  /** A key waits for a worker; told again while it still waits, it is the same time. */
  waits(key: Key): void;
  starts(key: Key): void;
  ends(key: Key, visit: Visit): void;
  /** What waited is not run any more. */
  stops(): void;
};

type Options = {
  workers: number;
  observer?: QueueObserver | undefined;
  /** One run. `failures`: how often in a row it failed before. A rejection is a failure. */
  run(key: Key, failures: number): Promise<Visit>;
  /** Told of a run that rejected; it is tried again. */
  onError(key: Key, error: unknown): void;
  random?: () => number;
};

/** The longest a timer may be set for; what is due later is looked at one time on the way. */
const MAX_TIMER_MS = 24 * 3600 * 1000;

/** Creates a queue that immediately runs what is added. */
export function createQueue({ workers, observer, run, onError, random = Math.random }: Options): Queue {
  const lanes = createLanes();
  const keys = new Map<string, Key>();
  const running = new Set<string>();
  const addedMeanwhile = new Map<string, boolean>();
  const failures = new Map<string, number>();
  const timers = new Map<string, NodeJS.Timeout>();
  let stopped = false;
  let whenIdle: (() => void) | undefined;

  function add(key: Key, urgent = false): void {
    if (stopped) return;
    const id = keyText(key);
    keys.set(id, key);
    if (running.has(id)) {
      addedMeanwhile.set(id, urgent || (addedMeanwhile.get(id) ?? false));
      return;
    }
    lanes.push(id, key, urgent);
    observer?.waits(key);
    fill();
  }

  function fill(): void {
    while (!stopped && running.size < workers) {
      const id = lanes.shift();
      const key = id === undefined ? undefined : keys.get(id);
      if (id === undefined || key === undefined) return;
      running.add(id);
      observer?.starts(key);
      clearTimeout(timers.get(id));
      timers.delete(id);
      void runOnce(id, key);
    }
  }

  async function runOnce(id: string, key: Key): Promise<void> {
    let visit: Visit;
    try {
      visit = await run(key, failures.get(id) ?? 0);
    } catch (error) {
      onError(key, error);
      visit = { retry: true };
    }
    running.delete(id);
    observer?.ends(key, visit);
    plan(id, key, visit);
    const again = addedMeanwhile.get(id);
    addedMeanwhile.delete(id);
    if (again !== undefined) {
      add(key, again);
    } else if (!timers.has(id) && !failures.has(id)) keys.delete(id);
    fill();
    if (stopped && running.size === 0) whenIdle?.();
  }

  function plan(id: string, key: Key, visit: Visit): void {
    if (visit.retry !== true) {
      failures.delete(id);
      if (visit.afterMs !== undefined) comeBack(id, key, visit.afterMs, false);
      return;
    }
    const count = (failures.get(id) ?? 0) + 1;
    failures.set(id, count);
    const urgent = visit.urgent ?? false;
    const delay = Math.round(backoff(urgent ? URGENT : ORDINARY, count, random));
    comeBack(id, key, Math.max(delay, visit.notBeforeMs ?? 0), urgent);
  }

  function comeBack(id: string, key: Key, ms: number, urgent: boolean): void {
    if (stopped) return;
    const timer = setTimeout(
      () => {
        timers.delete(id);
        add(key, urgent);
      },
      Math.min(Math.max(ms, 0), MAX_TIMER_MS),
    );
    timers.set(id, timer);
  }

  return {
    add,
    forget: (key) => void failures.delete(keyText(key)),
    async stop() {
      stopped = true;
      observer?.stops();
      for (const timer of timers.values()) clearTimeout(timer);
      timers.clear();
      if (running.size > 0) await new Promise<void>((resolve) => (whenIdle = resolve));
    },
    depth: () => ({ waiting: lanes.size(), running: running.size }),
  };
}

/**
 * Keys that wait for a worker: urgent ones first as far as that starves nothing, and every namespace in turn.
 */
type Lanes = {
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
