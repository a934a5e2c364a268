import { type Backoff, backoff } from "../concurrency/backoff.ts";
import type { Pace } from "../rates/pace.ts";
import { type Key, keyText } from "./kinds.ts";

/** How many objects the operator reconciles at the same time. */
export const WORKERS = 10;
/**
 * How often an object may run per minute. A higher rate means that somebody undoes the operator's writes, and
 * each run would write again.
 */
export const RUNS_PER_MINUTE = 20;

const JITTER = [0.5, 1] as const;
/** Backoff of ordinary work, in milliseconds. */
const ORDINARY: Backoff = { base: 1000, cap: 300_000, jitter: JITTER };
/** Backoff in milliseconds of work that ends an authority or carries out a decision. */
const URGENT: Backoff = { base: 250, cap: 30_000, jitter: JITTER };

/**
 * Result of one run of a key:
 * - `{}`: nothing to do until the key is added again.
 * - `afterMs`: run the key again after this many milliseconds.
 * - `retry`: the run failed. The queue retries the key with growing delays, but not before `notBeforeMs`.
 */
export type Visit =
  | { afterMs?: number; retry?: never }
  | { retry: true; urgent?: boolean; notBeforeMs?: number };

/** Returns the result of a visit, in controller-runtime's terms. */
export function resultOf(visit: Visit): "success" | "requeue_after" | "error" {
  if (visit.retry) return "error";
  return visit.afterMs === undefined ? "success" : "requeue_after";
}

/**
 * A queue of keys like client-go's workqueue, in which namespaces take turns. A key never runs twice at the
 * same time. Adding a waiting key changes nothing. Adding a running key causes exactly one more run. A key
 * that ran too often waits until its pace admits the next run.
 */
export type Queue = {
  add(key: Key, urgent?: boolean): void;
  /** Forgets the failures of a key, so that its next retry comes soon. */
  forget(key: Key): void;
  /** Starts no further runs, and resolves when the current runs have finished. */
  stop(): Promise<void>;
  depth(): { waiting: number; running: number };
};

/** Observer of the queue. Its functions must return immediately. */
export type QueueObserver = {
  /** Called when a key waits for a worker, possibly several times. The wait began with the first call. */
  waits(key: Key): void;
  starts(key: Key): void;
  ends(key: Key, visit: Visit): void;
  /** Called when a key must wait because it ran too often. */
  delays(key: Key): void;
  /** Called when the queue stops. The waiting keys will not run. */
  stops(): void;
};

type Options = {
  workers: number;
  observer?: QueueObserver | undefined;
  /** How often each key may run. Absent for no limit. */
  pace?: Pick<Pace, "take"> | undefined;
  /** `failures` counts the consecutive failures before this run. A rejection counts as a failure. */
  run(key: Key, failures: number): Promise<Visit>;
  onError(key: Key, error: unknown): void;
  random?: () => number;
};

/** Upper limit for a timer. A key that is due later runs once more in between. */
const MAX_TIMER_MS = 24 * 3600 * 1000;

/** Creates a queue that starts to run keys immediately. */
export function createQueue(options: Options): Queue {
  const { workers, observer, pace, run, onError, random = Math.random } = options;
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
      clearTimeout(timers.get(id));
      timers.delete(id);
      const turn = pace?.take(id);
      if (turn?.admitted === false) {
        observer?.delays(key);
        scheduleRun(id, key, turn.waitMs, false);
        continue;
      }
      running.add(id);
      observer?.starts(key);
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
      if (visit.afterMs !== undefined) scheduleRun(id, key, visit.afterMs, false);
      return;
    }
    const count = (failures.get(id) ?? 0) + 1;
    failures.set(id, count);
    const urgent = visit.urgent ?? false;
    const delay = Math.round(backoff(urgent ? URGENT : ORDINARY, count, random));
    scheduleRun(id, key, Math.max(delay, visit.notBeforeMs ?? 0), urgent);
  }

  function scheduleRun(id: string, key: Key, ms: number, urgent: boolean): void {
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

/** Keys that wait for a worker. Urgent keys come first, but ordinary keys never starve. */
type Lanes = {
  /** Adds a key. A waiting key is not added again, but becomes urgent if `urgent` is true. */
  push(id: string, key: Key, urgent: boolean): void;
  shift(): string | undefined;
  size(): number;
};

/** After this many urgent keys, an ordinary key runs, if one waits. */
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

/** Keys run in the order in which they were added, within each namespace. The namespaces take turns. */
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
