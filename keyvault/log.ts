import { type Logger, pino } from "pino";

export type { Logger };

/** What every line of the vault's log says it is of. */
export const PART = "keyvault";

/**
 * One JSON line per event on standard output. The vault passes it identifiers, codes and counts, never key
 * material.
 */
export function createLog(level: string): Logger {
  return pino({ level, base: { part: PART }, timestamp: pino.stdTimeFunctions.isoTime });
}
