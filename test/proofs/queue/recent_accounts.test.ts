import { expect, test } from "vitest";
import { createRecentAccounts } from "../../../src/proofs/queue/recent_accounts.ts";

/** Accounts that call at these milliseconds, and whether "a" is alone at the last of them. */
function isAloneAfter(calls: [ms: number, account: string][], at: number): boolean {
  let ms = 0;
  const recent = createRecentAccounts(() => ms);
  for (const [time, account] of calls) {
    ms = time;
    recent.note(account);
  }
  ms = at;
  return recent.isAlone("a");
}

test.each<[string, [number, string][], number, boolean]>([
  ["while nobody calls", [], 0, true],
  [
    "while it calls alone",
    [
      [0, "a"],
      [1_500, "a"],
      [2_900, "a"],
    ],
    2_999,
    true,
  ],
  [
    "just after another one",
    [
      [0, "a"],
      [1, "b"],
    ],
    2,
    false,
  ],
  [
    "a second after another one",
    [
      [0, "a"],
      [10, "b"],
      [1_005, "a"],
    ],
    1_010,
    false,
  ],
  [
    "two seconds after another one",
    [
      [0, "a"],
      [999, "b"],
      [1_000, "a"],
      [2_000, "a"],
    ],
    2_999,
    true,
  ],
  ["after a long rest of all", [[0, "b"]], 5_000, true],
  ["when another one alone has called", [[0, "b"]], 1, false],
])("an account is alone or not %s", (_, calls, at, expected) => {
  expect(isAloneAfter(calls, at)).toBe(expected);
});
