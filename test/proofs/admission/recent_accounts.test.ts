import { expect, test } from "vitest";
import { createRecentAccounts } from "../../../src/proofs/admission/fair_queue.ts";

const ROUND_MS = 1_000;

/** Returns `mostOfOthers` for the account "a" at `at`. */
function mostAfter(noted: readonly [ms: number, account: string, calls: number][], at: number): number {
  let ms = 0;
  const recent = createRecentAccounts(ROUND_MS, () => ms);
  for (const [time, account, calls] of noted) {
    ms = time;
    recent.note(account, calls);
  }
  ms = at;
  return recent.mostOfOthers("a");
}

test.each<[string, [number, string, number][], number, number]>([
  ["if no account calls", [], 0, 0],
  [
    "if no other account calls",
    [
      [0, "a", 7],
      [1_500, "a", 1],
      [2_900, "a", 1],
    ],
    2_999,
    0,
  ],
  [
    "just after another account called",
    [
      [0, "a", 7],
      [1, "b", 2],
    ],
    2,
    2,
  ],
  [
    "if another account has fewer calls than before",
    [
      [0, "b", 5],
      [10, "b", 1],
    ],
    20,
    5,
  ],
  [
    "if a third account has the most calls, but fewer than the account itself",
    [
      [0, "b", 3],
      [0, "a", 9],
      [1, "c", 4],
      [2, "b", 2],
    ],
    3,
    4,
  ],
  [
    "if an account first had fewer calls than two others, and then the most",
    [
      [0, "b", 3],
      [0, "c", 4],
      [0, "d", 1],
      [1, "d", 6],
    ],
    2,
    6,
  ],
  [
    "a second after another account called",
    [
      [0, "a", 1],
      [10, "b", 3],
      [1_005, "a", 1],
    ],
    1_010,
    3,
  ],
  [
    "two seconds after another account called",
    [
      [0, "a", 1],
      [999, "b", 3],
      [1_000, "a", 1],
      [2_000, "a", 1],
    ],
    2_999,
    0,
  ],
  ["after a long time without calls", [[0, "b", 3]], 5_000, 0],
])(
  "mostOfOthers returns the largest number of concurrent calls of any other account, %s",
  (_, noted, at, expected) => {
    expect(mostAfter(noted, at)).toBe(expected);
  },
);
