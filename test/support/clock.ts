import { addSeconds, type Clock } from "../../src/clock.ts";

export type SteeredClock = Clock & {
  set(time: Date): void;
  /** Moves the clock by seconds; fractions are milliseconds. */
  advance(seconds: number): void;
};

/** Creates a clock that is stopped at `time`, by default the real time. */
export function steeredClock(time: Date = new Date()): SteeredClock {
  let now = time;
  return {
    now: () => now,
    set(next) {
      now = next;
    },
    advance(seconds) {
      now = addSeconds(now, seconds);
    },
  };
}
