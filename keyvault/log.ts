import { type Logger, pino } from "pino";

export type { Logger };

/** Value of `part` in every line of the vault's log. */
export const PART = "keyvault";

/** Returns a log that writes one JSON line per event to standard output. Never log key material. */
export function createLog(level: string): Logger {
  return pino({ level, base: { part: PART }, timestamp: pino.stdTimeFunctions.isoTime });
}
