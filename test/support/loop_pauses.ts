import { AsyncLocalStorage } from "node:async_hooks";
import { afterAll, vi } from "vitest";
import { until } from "./process.ts";

/** The held pauses of loops. They end only when the test ends them. */
export type LoopPauses = {
  /** Holds the pauses of the loops that `start` starts, and not those of other loops in this process. */
  of<T>(start: () => T): T;
  /** Returns the lengths of the held pauses in milliseconds, ascending. */
  waiting(): number[];
  /** Resolves when a step is over and a pause of `ms` milliseconds has begun. The result ends this pause. */
  begun(ms: number): Promise<() => void>;
  /** Ends the held pauses, of one length in milliseconds or of any length. */
  end(ms?: number): void;
  /** Ends all pauses, and no longer holds any. */
  restore(): void;
};

type Pause = { ms: number; end(): void };

/** Returns whether the first function of our own on the stack is a loop, and not a step of a loop. */
function isCalledByLoop(stack = ""): boolean {
  const frames = stack.split("\n").slice(1);
  const caller = frames.find((frame) => !/loop_pauses|node_modules|node:|<anonymous>/.test(frame));
  return caller?.includes("/concurrency/loop.ts") === true;
}

/**
 * Holds the pauses of the loops that start in `of`. With `lengths` in milliseconds, holds the pauses of these
 * lengths instead, of all loops, until the end of the file. Does not change other timers.
 */
export function holdLoopPauses(lengths?: readonly number[]): LoopPauses {
  const pauses = new Map<unknown, Pause>();
  const own = new AsyncLocalStorage<true>();
  const isChosen = (ms: number) => (lengths === undefined ? own.getStore() === true : lengths.includes(ms));
  const { setTimeout: start, clearTimeout: clear } = globalThis;
  const starting = vi.spyOn(globalThis, "setTimeout").mockImplementation(((
    run: () => void,
    ms = 0,
    ...args: []
  ) => {
    if (!isChosen(ms) || !isCalledByLoop(new Error().stack)) return start(run, ms, ...args);
    const timer = start(() => {}, 2 ** 31 - 1).unref();
    pauses.set(timer, { ms, end: run });
    return timer;
  }) as typeof setTimeout);
  const clearing = vi.spyOn(globalThis, "clearTimeout").mockImplementation((timer) => {
    pauses.delete(timer);
    clear(timer);
  });

  /** Stops holding a pause, and returns the function that ends it. */
  function release([timer, pause]: [unknown, Pause]): () => void {
    pauses.delete(timer);
    clear(timer as NodeJS.Timeout);
    return pause.end;
  }
  const heldFor = (ms?: number) => [...pauses].filter(([, pause]) => ms === undefined || pause.ms === ms);
  function end(ms?: number): void {
    for (const held of heldFor(ms)) release(held)();
  }
  function restore(): void {
    starting.mockRestore();
    clearing.mockRestore();
    end();
  }
  if (lengths !== undefined) afterAll(restore);
  return {
    of: (start) => own.run(true, start),
    waiting: () => [...pauses.values()].map(({ ms }) => ms).sort((one, other) => one - other),
    async begun(ms) {
      await until(`a pause of ${ms} ms begins`, () => heldFor(ms).length > 0);
      const [held] = heldFor(ms);
      return release(held as [unknown, Pause]);
    },
    end,
    restore,
  };
}
