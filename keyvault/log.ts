import { type Logger, pino } from "pino";

export type { Logger };

/**
 * One JSON line per event on standard output. The vault passes it identifiers, codes and counts, never key
 * material.
 */
export function createLog(level: string): Logger {
  return pino({ level, base: { part: "keyvault" }, timestamp: pino.stdTimeFunctions.isoTime });
}
