import type { Logger } from "../log.ts";
import { backoff } from "./backoff.ts";

/** A piece of work that repeats until it is stopped. */
export type Loop = {
  /** Ends the current pause immediately, because there may be work, unless the last step failed. */
  wake(): void;
  /** Stops the loop after the current step and resolves when that step has finished. */
  stop(): Promise<void>;
};

/** Settings of a loop. `step` returns whether it found any work. Pauses are in milliseconds. */
export type LoopSettings = {
  name: string;
  step(): Promise<boolean>;
  log: Logger;
  shortestPause?: number;
  longestPause?: number;
};

/** Milliseconds. */
const FAULT_PAUSE = { base: 100, cap: 1000 };

/**
 * Starts a loop that repeats `step`, immediately after a step that found work, otherwise after a pause.
 * Pauses double from the shortest (20 ms) to the longest (500 ms). If steps fail, the loop logs one warning
 * per outage and retries after at most 1 s, without limit.
 */
export function startLoop(settings: LoopSettings): Loop {
  const { name, step, log, shortestPause = 20, longestPause = 500 } = settings;
  const idlePause = { base: shortestPause, cap: longestPause };
  let stopping = false;
  let woken = false;
  let faults = 0;
  let endPause = () => {};

  async function pauseFor(milliseconds: number): Promise<void> {
    if (stopping) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    endPause = () => {};
  }

  async function takeStep(): Promise<boolean> {
    const busy = await step();
    if (faults > 0) log.info({ loop: name }, "working again");
    faults = 0;
    return busy;
  }

  async function recover(error: unknown): Promise<void> {
    if (faults === 0) log.warn({ loop: name, err: error }, "not working, trying again");
    faults += 1;
    await pauseFor(backoff(FAULT_PAUSE, faults));
  }

  async function run(): Promise<void> {
    let idleSteps = 0;
    while (!stopping) {
      woken = false;
      try {
        idleSteps = (await takeStep()) ? 0 : idleSteps + 1;
        if (idleSteps > 0 && !woken) await pauseFor(backoff(idlePause, idleSteps));
        if (woken) idleSteps = 0;
      } catch (error) {
        await recover(error);
      }
    }
  }

  const done = run();
  return {
    wake() {
      woken = true;
      if (faults === 0) endPause();
    },
    async stop() {
      stopping = true;
      endPause();
      await done;
    },
  };
}
