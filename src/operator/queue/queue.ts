import { type Key, keyText } from "../kinds.ts";
import { createLanes } from "./lanes.ts";

/** Objects that are worked on at the same time. */
export const WORKERS = 10;

/** How quickly retries slow down, in milliseconds. */
type BackoffRange = { baseMs: number; maxMs: number };

/** For ordinary work. */
const ORDINARY: BackoffRange = { baseMs: 1000, maxMs: 300_000 };
/** For what takes authority away or gives what was just approved. */
const URGENT: BackoffRange = { baseMs: 250, maxMs: 30_000 };

/**
 * Milliseconds before the retry that follows `failures` failures (1 or more): doubling, then 50–100 % of it
 * by chance.
 */
function backoffMs({ baseMs, maxMs }: BackoffRange, failures: number, random: () => number): number {
  const full = Math.min(maxMs, baseMs * 2 ** Math.min(failures - 1, 30));
  return Math.round(full * (0.5 + random() / 2));
}

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
    const delay = backoffMs(urgent ? URGENT : ORDINARY, count, random);
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
