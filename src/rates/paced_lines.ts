import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";
import type { Logger } from "../log.ts";
import { createPace } from "./pace.ts";

/** Lines a minute of one kind. */
const PER_MINUTE = 60;
const REMEMBERED = 10_000;

/** Writes a line of a kind, unless there were enough of that kind in this minute. */
export type PacedLines = (kind: string, line: object, text: string) => void;

/**
 * For what a caller can bring about as often as they like: no more than 60 lines of a kind a minute, and then
 * how many were left out.
 */
export function createPacedLines(
  level: "info" | "warn",
  { log, clock }: { log: Logger; clock: Clock },
): PacedLines {
  const pace = createPace({ perMinute: PER_MINUTE, clock });
  const leftOut = new LRUCache<string, number>({ max: REMEMBERED });
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
