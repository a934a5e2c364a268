import { type Logger, pino } from "pino";
import { describeFault } from "./describe_fault.ts";

export type { Logger };

const secretPaths = ["authorization", "cookie", "api_key", "signing_secret", "webhook_signing_secret"];

/**
 * One JSON line per event on standard output. Fields that could hold a secret are cut out by name, and of an
 * error (`err`) what could quote a caller's data.
 */
export function createLog(level: string, part: string): Logger {
  return pino({
    level,
    base: { part },
    serializers: { err: describeFault },
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: { paths: [...secretPaths, ...secretPaths.map((path) => `*.${path}`)], censor: "[secret]" },
  });
}
