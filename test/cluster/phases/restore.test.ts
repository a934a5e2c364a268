import { expect, test } from "vitest";
import { headOf, withoutLost } from "./restore.ts";

const head = (seq: number) => `{"event":"audit_head","seq":${seq},"mac":"0f"}\n`;

test("headOf() finds the number of the last audit record that a restore or a verification printed", () => {
  expect(headOf("signed by      ab\naudit head     42:0f3a")).toBe(42);
  expect(headOf("audit head\n  1234:0f3a")).toBe(1234);
  expect(() => headOf("There is a token in /var/lib/keyvault")).toThrow("no audit head");
});

test("withoutLost() keeps only the audit heads of records that are not lost", () => {
  const log = `not JSON\n${head(41)}{"event":"started"}\n${head(42)}${head(43)}${head(99)}`;
  expect(withoutLost(log, 42)).toBe(head(41) + head(42));
  expect(() => withoutLost(log, 40)).toThrow("no head up to record 40");
});
