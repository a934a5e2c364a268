import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";
import { atMost } from "../concurrency/at_most.ts";
import type { Logger } from "../log.ts";
import { createPace } from "./pace.ts";

const PER_MINUTE = 60;
const REMEMBERED = 10_000;

/** Writes a log line of a kind, unless this kind has reached its limit for the current minute. */
export type PacedLines = (kind: string, line: object, text: string) => void;

/**
 * Limits the log lines that callers can cause: at most 60 lines of each kind per minute. The next line of
 * that kind contains the number of omitted lines.
 */
export function createPacedLines(
  level: "info" | "warn",
  { log, clock }: { log: Logger; clock: Clock },
): PacedLines {
  const pace = createPace({ perMinute: PER_MINUTE, clock });
  const leftOut = new LRUCache<string, number>(atMost(REMEMBERED));
  return (kind, line, text) => {
    const before = leftOut.get(kind) ?? 0;
    if (!pace.take(kind).admitted) {
      leftOut.set(kind, before + 1);
      return;
    }
    leftOut.delete(kind);
    log[level](before === 0 ? line : { ...line, left_out: before }, text);
  };
}
