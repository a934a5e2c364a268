import { addSeconds, type Clock } from "../../src/clock.ts";

/** A clock that stands still until the test moves it. */
export type SteeredClock = Clock & {
  set(time: Date): void;
  /** Moves it by seconds; fractions are milliseconds. */
  advance(seconds: number): void;
};

/** A clock that stands at `time`; by default at the real time of its making. */
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
