import { type Logger, pino } from "pino";
import { describeFault } from "./describe_fault.ts";

export type { Logger };

const secretPaths = ["authorization", "cookie", "api_key", "signing_secret", "webhook_signing_secret"];

/**
 * Creates a log with one JSON line per event on standard output. Fields that could contain a secret are
 * redacted by name. Errors (`err`) are logged without messages that could quote a caller's data.
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
