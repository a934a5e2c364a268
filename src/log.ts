import { type Logger, pino } from "pino";

export type { Logger };

const secretPaths = [
  "authorization",
  "cookie",
  "code",
  "api_key",
  "signing_secret",
  "webhook_signing_secret",
];

/** One JSON line per event on standard output. Fields that could hold a secret are cut out by name. */
export function createLog(level: string, part: string): Logger {
  return pino({
    level,
    base: { part },
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: { paths: [...secretPaths, ...secretPaths.map((path) => `*.${path}`)], censor: "[secret]" },
  });
}
