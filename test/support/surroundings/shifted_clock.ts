import { fileURLToPath } from "node:url";

const PRELOAD = fileURLToPath(new URL("shifted_clock.mjs", import.meta.url));

/** Returns environment variables with which the clock of a Node process is wrong by some seconds. */
export function shiftedClock(seconds: number): Record<string, string> {
  return { NODE_OPTIONS: `--import=${PRELOAD}`, CLOCK_SHIFT: String(seconds * 1000) };
}
