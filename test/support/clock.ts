import { addSeconds, type Clock, type ComparedClock, systemClock } from "../../src/clock.ts";

export type SteeredClock = ComparedClock & {
  set(time: Date): void;
  /** Moves the clock by seconds; fractions are milliseconds. */
  advance(seconds: number): void;
  /** Sets whether the two machines' clocks agree. At first, they do. */
  setAgreement(agrees: boolean): void;
};

/** Creates a clock that is stopped at `time`, by default the real time. */
export function steeredClock(time: Date = new Date()): SteeredClock {
  let now = time;
  let agrees = true;
  return {
    now: () => now,
    agreed: () => (agrees ? now : undefined),
    set(next) {
      now = next;
    },
    advance(seconds) {
      now = addSeconds(now, seconds);
    },
    setAgreement(next) {
      agrees = next;
    },
  };
}

/** Returns the same clock, which agrees with the other machine's. By default, the clock of this machine. */
export function agreeing(clock: Clock = systemClock): ComparedClock {
  return { ...clock, agreed: () => clock.now() };
}
