import { expect, test } from "vitest";
import { createRegister } from "../../../keyvault/audit/register.ts";
import { emptyPart, emptyRest, PARTS } from "../../../keyvault/audit/register_parts.ts";
import type { AuditRow } from "../../../keyvault/db/rows.ts";

const KEY = "0".repeat(32);
const digest = (byte: number) => Buffer.alloc(32, byte);
const record = (seq: number, said: Partial<AuditRow>): AuditRow => ({
  seq,
  recorded_at: new Date(0),
  caller: "api",
  role: "api",
  key_id: KEY,
  purpose: "account_root",
  statement: "key_create",
  digest: null,
  outcome: "granted",
  detail: { tenant: "acc-1", state: digest(1).toString("hex") },
  mac: digest(seq),
  ...said,
});
const disable = record(2, { statement: "key_disable", digest: digest(2), detail: {} });

test("a state counts from the moment its transaction ends, and not any more when that failed", () => {
  const register = createRegister();
  register.fold([record(1, {})]);
  register.awaiting([disable]);
  expect(register.isLast("key", KEY, 2, digest(2)), "whoever reads beside the journal may see it").toBe(true);
  expect(register.isLast("key", KEY, 1, digest(1))).toBe(true);
  register.awaiting([]);
  expect(register.isLast("key", KEY, 2, digest(2))).toBe(false);
  register.fold([disable]);
  expect(register.isLast("key", KEY, 2, digest(2))).toBe(true);
  expect(register.isLast("key", KEY, 1, digest(1))).toBe(false);
});

test("records folded in once more, as a start from parts of different age does, come to the same", () => {
  const whole = createRegister();
  whole.fold([record(1, {}), disable]);
  const parts = Array.from({ length: PARTS }, (_, index) => whole.part(index).content);
  const again = createRegister();
  again.begin({ head: { seq: 0, mac: digest(0) }, parts, rest: emptyRest() });
  again.fold([record(1, {}), disable]);
  expect(again.rootsOf("acc-1")).toEqual([KEY]);
  for (let index = 0; index < PARTS; index += 1)
    expect(again.part(index).content).toEqual(whole.part(index).content);
  expect(again.head()).toEqual(whole.head());
});

test("a key that was only given again, and what was refused, change nothing", () => {
  const register = createRegister();
  register.fold([
    record(1, { detail: { tenant: "acc-1", repeated: "true" } }),
    record(2, { outcome: "policy_violation" }),
  ]);
  expect(register.changedAt("key", KEY)).toBe(0);
  expect(register.rootsOf("acc-1")).toEqual([]);
  for (let index = 0; index < PARTS; index += 1) expect(register.part(index).content).toEqual(emptyPart());
});
