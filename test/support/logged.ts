import { pino } from "pino";
import type { Logger } from "../../src/log.ts";

/** A log that keeps the level and message of each line, such as `warn the lease could not be renewed`. */
export function logged(): { log: Logger; lines: string[] } {
  const lines: string[] = [];
  const write = (text: string) => {
    const { level, msg } = JSON.parse(text) as { level: number; msg: string };
    lines.push(`${pino.levels.labels[level]} ${msg}`);
  };
  return { log: pino({ level: "debug" }, { write }), lines };
}
