import type { Logger } from "../log.ts";

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

const FIRST_FAULT_PAUSE = 50;
const LONGEST_FAULT_PAUSE = 1000;

/**
 * Repeats a step: immediately while it finds work, then after pauses that double from the shortest (20 ms) to
 * the longest (500 ms). A step that throws is logged once per outage and tried again after up to 1 s, for as
 * long as it takes.
 */
export function startLoop(settings: LoopSettings): Loop {
  const { name, step, log, shortestPause = 20, longestPause = 500 } = settings;
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

  /** The pause after a step, given the one before. */
  async function takeStep(pause: number): Promise<number> {
    const busy = await step();
    if (faults > 0) log.info({ loop: name }, "working again");
    faults = 0;
    return busy ? 0 : Math.min(Math.max(pause * 2, shortestPause), longestPause);
  }

  async function recover(error: unknown): Promise<void> {
    if (faults === 0) log.warn({ loop: name, err: error }, "not working, trying again");
    faults += 1;
    await pauseFor(Math.min(FIRST_FAULT_PAUSE * 2 ** Math.min(faults, 10), LONGEST_FAULT_PAUSE));
  }

  async function run(): Promise<void> {
    let pause = 0;
    while (!stopping) {
      woken = false;
      try {
        pause = await takeStep(pause);
        if (pause > 0 && !woken) await pauseFor(pause);
        if (woken) pause = 0;
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
