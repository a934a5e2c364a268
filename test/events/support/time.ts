import { setTimeout as sleep } from "node:timers/promises";
import { addSeconds, type Clock } from "../../../src/clock.ts";

/** A clock that moves only when the test moves it. */
export type VirtualClock = Clock & { advance(seconds: number): void; set(time: Date): void };

export function virtualClock(start = new Date("2026-03-01T00:00:00.000Z")): VirtualClock {
  let time = start;
  return {
    now: () => time,
    advance: (seconds) => {
      time = addSeconds(time, seconds);
    },
    set: (at) => {
      time = at;
    },
  };
}

/** Waits until a condition is true. Fails after `seconds` with the description of the condition. */
export async function eventually(
  what: string,
  holds: () => boolean | Promise<boolean>,
  seconds = 20,
): Promise<void> {
  const end = Date.now() + seconds * 1000;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`Not within ${seconds} s: ${what}`);
    await sleep(10);
  }
}
