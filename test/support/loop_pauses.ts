import { AsyncLocalStorage } from "node:async_hooks";
import { vi } from "vitest";

/** The pauses of some loops. They end only when the test ends them. */
export type LoopPauses = {
  /** Holds the pauses of the loops that `start` starts, and not those of other loops in this process. */
  of<T>(start: () => T): T;
  /** Returns the number of held pauses, of one length in milliseconds or of any length. */
  held(milliseconds?: number): number;
  /** Ends the held pauses, of one length in milliseconds or of any length. */
  end(milliseconds?: number): void;
  /** Ends all pauses, and no longer holds any. */
  restore(): void;
};

type Pause = { milliseconds: number; end(): void };

/** Returns whether the first function of our own on the stack is a loop, and not a step of a loop. */
function isCalledByLoop(stack = ""): boolean {
  const frames = stack.split("\n").slice(1);
  const caller = frames.find((frame) => !/loop_pauses|node_modules|node:|<anonymous>/.test(frame));
  return caller?.includes("/concurrency/loop.ts") === true;
}

/** Holds the pauses of the loops that start in `of`. Does not change other timers. */
export function holdLoopPauses(): LoopPauses {
  const pauses = new Map<unknown, Pause>();
  const own = new AsyncLocalStorage<true>();
  const { setTimeout: start, clearTimeout: clear } = globalThis;
  const starting = vi.spyOn(globalThis, "setTimeout").mockImplementation(((
    run: () => void,
    milliseconds = 0,
    ...args: []
  ) => {
    const isHeld = own.getStore() === true && isCalledByLoop(new Error().stack);
    if (!isHeld) return start(run, milliseconds, ...args);
    const timer = start(() => {}, 2 ** 31 - 1).unref();
    pauses.set(timer, { milliseconds, end: run });
    return timer;
  }) as typeof setTimeout);
  const clearing = vi.spyOn(globalThis, "clearTimeout").mockImplementation((timer) => {
    pauses.delete(timer);
    clear(timer);
  });

  const pausesOf = (milliseconds?: number) =>
    [...pauses].filter(([, pause]) => milliseconds === undefined || pause.milliseconds === milliseconds);
  function end(milliseconds?: number): void {
    for (const [timer, pause] of pausesOf(milliseconds)) {
      pauses.delete(timer);
      clear(timer as NodeJS.Timeout);
      pause.end();
    }
  }
  return {
    of: (start) => own.run(true, start),
    held: (milliseconds) => pausesOf(milliseconds).length,
    end,
    restore() {
      starting.mockRestore();
      clearing.mockRestore();
      end();
    },
  };
}
