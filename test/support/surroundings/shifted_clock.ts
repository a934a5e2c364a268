import { renameSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const PRELOAD = fileURLToPath(new URL("shifted_clock.mjs", import.meta.url));

/** Returns environment variables with which the clock of a Node process is wrong by some seconds. */
export function shiftedClock(seconds: number): Record<string, string> {
  return { NODE_OPTIONS: `--import=${PRELOAD}`, CLOCK_SHIFT: String(seconds * 1000) };
}

/** The clock of one machine, for any number of Node processes. */
export type MovableClock = {
  /** Environment variables of the machine's processes. */
  environment: Record<string, string>;
  /** Makes the clock wrong by some seconds. Processes that run notice this within a moment. */
  set(seconds: number): void;
};

/** Creates a clock that is right. `file` keeps by how much it is wrong. */
export function movableClock(file: string): MovableClock {
  const set = (seconds: number) => {
    writeFileSync(`${file}.new`, String(seconds * 1000));
    renameSync(`${file}.new`, file);
  };
  set(0);
  return { environment: { NODE_OPTIONS: `--import=${PRELOAD}`, CLOCK_SHIFT_FILE: file }, set };
}
