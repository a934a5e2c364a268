import type { Logger } from "../log.ts";
import { backoff } from "./backoff.ts";

/** A piece of work that repeats until it is stopped. */
export type Loop = {
  /** There may be work: do not wait for the next poll. */
  wake(): void;
  /** Ends after the step that is under way. */
  stop(): Promise<void>;
};

/** `step` does some of the work and says whether it found any. Pauses are milliseconds. */
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
 * Repeats a step: immediately while it finds work, then after pauses that double from the shortest (20 ms) to
 * the longest (500 ms). A step that throws is logged once per outage and tried again after up to 1 s, for as
 * long as it takes.
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

  /** Whether the step found work. */
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
