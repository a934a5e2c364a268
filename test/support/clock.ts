import { addSeconds, type Clock } from "../../src/clock.ts";

/** A clock that is stopped until the test moves it. */
export type SteeredClock = Clock & {
  set(time: Date): void;
  /** Moves it by seconds; fractions are milliseconds. */
  advance(seconds: number): void;
};

/** A clock stopped at `time`; by default at the real time of its making. */
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
