import { pino } from "pino";
import { expect, test } from "vitest";
import { createPacedLines } from "../../src/rates/paced_lines.ts";
import { steeredClock } from "../support/clock.ts";

test("writes 60 lines of each kind in a minute, and then once how many it omitted", () => {
  const lines: { kind: string; left_out?: number }[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const clock = steeredClock();
  const write = createPacedLines("warn", { log, clock });
  const many = (kind: string, count: number) => {
    lines.length = 0;
    for (let n = 0; n < count; n += 1) write(kind, { kind }, "text");
    return lines.map(({ left_out }) => left_out);
  };
  expect(many("a", 65)).toEqual(Array(60).fill(undefined));
  expect(many("b", 1)).toEqual([undefined]);
  clock.advance(60);
  expect(many("a", 2)).toEqual([5, undefined]);
});
