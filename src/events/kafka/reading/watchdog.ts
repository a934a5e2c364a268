import type { Clock } from "../../../clock.ts";

/** Notices a reader that stays silent although Kafka answers. */
export type Watchdog = {
  /** The reader did something. */
  sign(): void;
  /** For how long it has done nothing. */
  silentSeconds(): number;
  /** Tells `fatal`, once, when it has been silent for too long. */
  check(): Promise<void>;
};

/** Longer than Kafka leaves a silent reader its partitions, and than a rebalance takes. */
const SILENT_MS = 120_000;
/** It is checked more often, unless its process was frozen. */
const FROZEN_MS = 60_000;

/**
 * A reader fetches or sends a sign of life every few seconds, also when it has nothing to read. One that does
 * not, while Kafka answers others, will not begin again by itself: its process is to end. `answers` rejects
 * while Kafka does not answer: then all are silent, and wait. While the process is frozen nothing can give a
 * sign, so that time does not count.
 */
export function createWatchdog(deps: {
  name: string;
  clock: Clock;
  answers(): Promise<void>;
  fatal(error: Error): void;
}): Watchdog {
  const { name, clock, answers, fatal } = deps;
  let last = clock.now().getTime();
  let checkedAt = last;
  let isTold = false;
  const silentMs = () => clock.now().getTime() - last;
  return {
    sign() {
      last = clock.now().getTime();
    },
    silentSeconds: () => silentMs() / 1000,
    async check() {
      const now = clock.now().getTime();
      if (now - checkedAt > FROZEN_MS) last = now;
      checkedAt = now;
      if (isTold || silentMs() < SILENT_MS) return;
      try {
        await answers();
      } catch {
        last = clock.now().getTime();
        return;
      }
      if (silentMs() < SILENT_MS) return;
      isTold = true;
      fatal(new Error(`The reader ${name} has been silent for ${SILENT_MS / 1000} s although Kafka answers`));
    },
  };
}
