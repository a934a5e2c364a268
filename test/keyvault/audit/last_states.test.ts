import { expect, test } from "vitest";
import { createRegister } from "../../../keyvault/audit/last_states.ts";
import {
  emptyPart,
  emptyRest,
  PARTS,
  partOf,
  readPart,
  readRest,
  writePart,
  writeRest,
} from "../../../keyvault/audit/last_states_parts.ts";
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

test("the register accepts a state while the state's transaction runs, but not after that transaction fails", () => {
  const register = createRegister();
  register.apply([record(1, {})]);
  register.awaiting([disable]);
  expect(register.isLast("key", KEY, 2, digest(2)), "whoever reads beside the journal may see it").toBe(true);
  expect(register.isLast("key", KEY, 1, digest(1))).toBe(true);
  register.awaiting([]);
  expect(register.isLast("key", KEY, 2, digest(2))).toBe(false);
  register.apply([disable]);
  expect(register.isLast("key", KEY, 2, digest(2))).toBe(true);
  expect(register.isLast("key", KEY, 1, digest(1))).toBe(false);
});

test("the register gives the same result if records are applied twice", () => {
  const whole = createRegister();
  whole.apply([record(1, {}), disable]);
  const parts = Array.from({ length: PARTS }, (_, index) => whole.part(index).content);
  const again = createRegister();
  again.begin({ head: { seq: 0, mac: digest(0) }, parts, rest: emptyRest() });
  again.apply([record(1, {}), disable]);
  expect(again.rootsOf("acc-1")).toEqual([KEY]);
  for (let index = 0; index < PARTS; index += 1) {
    expect(again.part(index).content).toEqual(whole.part(index).content);
  }
  expect(again.head()).toEqual(whole.head());
});

test("the register ignores repeated creations and refused requests", () => {
  const register = createRegister();
  register.apply([
    record(1, { detail: { tenant: "acc-1", repeated: "true" } }),
    record(2, { outcome: "policy_violation" }),
  ]);
  expect(register.changedAt("key", KEY)).toBe(0);
  expect(register.rootsOf("acc-1")).toEqual([]);
  for (let index = 0; index < PARTS; index += 1) expect(register.part(index).content).toEqual(emptyPart());
});

test("the register accepts an uncommitted transaction's states only until the next transaction", () => {
  const register = createRegister();
  register.apply([record(1, {})]);
  register.awaiting([disable]);
  register.awaiting([record(2, { statement: "ceiling_shrink", digest: digest(3), detail: {} })]);
  expect(register.isLast("key", KEY, 2, digest(2))).toBe(false);
  expect(register.isLast("key", KEY, 2, digest(3))).toBe(true);
});

test.each(["key_disable", "key_enable", "key_destroy", "key_destroy_cancel", "key_erase", "ceiling_shrink"])(
  "the register accepts only the state that the last %s record set for a key",
  (statement) => {
    const register = createRegister();
    register.apply([record(1, {}), record(2, { statement, digest: digest(2), detail: {} })]);
    expect(register.isLast("key", KEY, 2, digest(2))).toBe(true);
    expect(register.isLast("key", KEY, 2, digest(3)), "another state").toBe(false);
    expect(register.isLast("key", KEY, 1, digest(1)), "the former state").toBe(false);
    expect(register.isLast("key", KEY, null, digest(2)), "without a number").toBe(false);
    expect(register.isErased("key", KEY)).toBe(statement === "key_erase");
  },
);

test.each(["tenant_destroy", "tenant_destroy_cancel", "tenant_erase"])(
  "the register keeps a tenant's last state from a %s record when the tenant gets an additional key",
  (statement) => {
    const register = createRegister();
    const change = { statement, key_id: null, digest: digest(2), detail: { tenant: "acc-1" } };
    register.apply([record(1, {}), record(2, change), record(3, { key_id: "1".repeat(32) })]);
    expect(register.isLast("tenant", "acc-1", 2, digest(2))).toBe(true);
    expect(register.isLast("tenant", "acc-1", 2, digest(1)), "another state").toBe(false);
    expect(register.isLast("tenant", "acc-1", 3, digest(2)), "a further key's record").toBe(false);
    expect(register.isErased("tenant", "acc-1")).toBe(statement === "tenant_erase");
  },
);

test("the register reports a row without a code as adoptable until two admins or an earlier version adopt it", () => {
  const other = "1".repeat(32);
  const uncoded = { detail: { tenant: "acc-1" } };
  const adoption = { statement: "state_adopt", key_id: null } as const;
  const register = createRegister();
  register.apply([record(1, uncoded), record(2, { ...uncoded, key_id: other })]);
  expect(register.isAdoptable("key", KEY)).toBe(true);
  expect(register.isAdoptable("tenant", "acc-1")).toBe(true);
  const keys = `${KEY}=${digest(3).toString("hex")}`;
  register.apply([record(3, { ...adoption, detail: { step: "done", rows: "1", keys, tenants: "" } })]);
  expect(register.isAdoptable("key", KEY)).toBe(false);
  expect(register.isLast("key", KEY, 3, digest(3))).toBe(true);
  expect(register.isAdoptable("key", other)).toBe(true);
  register.apply([record(4, { ...adoption, detail: { rows: "0" } })]);
  expect(register.isAdoptable("key", other)).toBe(false);
  expect(register.isAdoptable("tenant", "acc-1")).toBe(false);
});

test("the register accepts a state that two admins adopted only if the adoption's record names the row", () => {
  const register = createRegister();
  const adoption = { statement: "state_adopt", key_id: null } as const;
  register.apply([
    record(1, { detail: { tenant: "acc-1" } }),
    record(2, { ...adoption, detail: { step: "asked", rows: "all" } }),
    record(3, { ...adoption, detail: { step: "done", rows: "1", keys: "", tenants: "" } }),
  ]);
  for (const seq of [2, 3]) expect(register.isLast("key", KEY, seq, digest(seq))).toBe(false);
  register.apply([record(4, { ...adoption, detail: { rows: "1" } })]);
  expect(register.isLast("key", KEY, 4, digest(4)), "an earlier version's own adoption").toBe(true);
});

test("after an earlier version adopted all rows, the register still requires a code for a change without a digest", () => {
  const register = createRegister();
  const adoption = { statement: "state_adopt", key_id: null } as const;
  register.apply([
    record(1, { detail: { tenant: "acc-1" } }),
    record(2, { ...adoption, detail: { rows: "0" } }),
    record(3, { statement: "key_disable", detail: {} }),
    record(4, { ...adoption, detail: { rows: "1" } }),
  ]);
  expect(register.isLast("key", KEY, 3, digest(3))).toBe(true);
  expect(register.isLast("key", KEY, 4, digest(4))).toBe(false);
});

test("a register part stays the same when it is written and read, including erased states", () => {
  const register = createRegister();
  register.apply([
    record(1, {}),
    record(2, { statement: "key_erase", digest: digest(2), detail: {} }),
    record(3, { statement: "tenant_erase", key_id: null, digest: digest(3), detail: { tenant: "acc-1" } }),
    record(4, { key_id: "1".repeat(32), detail: { tenant: "acc-2" } }),
  ]);
  const parts = Array.from({ length: PARTS }, (_, index) => register.part(index).content);
  const read = parts.map((part) => readPart(writePart(part)));
  expect(read).toEqual(parts);
  const again = createRegister();
  again.begin({ head: register.head(), parts: read, rest: emptyRest() });
  expect(again.isErased("key", KEY)).toBe(true);
  expect(again.isErased("tenant", "acc-1")).toBe(true);
  expect(again.isErased("tenant", "acc-2")).toBe(false);
});

test("the register's data outside its parts stays the same when it is written and read", () => {
  const adoption = { statement: "state_adopt", key_id: null } as const;
  const asked = { step: "asked", rows: "ab", certificate: "AA==" };
  const register = createRegister();
  register.apply([
    record(1, { ...adoption, detail: { rows: "1" } }),
    record(2, { ...adoption, detail: { rows: "0" } }),
    record(3, { ...adoption, detail: asked }),
  ]);
  const rest = register.rest();
  expect(rest).toMatchObject({ allCoded: true, wish: { rows: "ab", certificate: "AA==" } });
  expect([...rest.earlierAdoptions]).toEqual([1, 2]);
  expect(readRest(writeRest(rest))).toEqual(rest);
  register.apply([record(4, { ...adoption, detail: { step: "done", rows: "1", keys: "", tenants: "" } })]);
  expect(register.adoptionWish(), "a wish that came true").toBeNull();
  expect(readRest(writeRest(register.rest()))).toEqual(register.rest());
});

test("the register counts each change of a part, so that the next snapshot contains it", () => {
  const register = createRegister();
  const changes = (name: string) => register.part(partOf(name)).changes;
  register.apply([record(1, { purpose: "account_root", detail: { tenant: "acc-1" } })]);
  const before = changes("acc-1");
  const other = "1".repeat(32);
  register.apply([record(2, { key_id: other, purpose: "account_root", detail: { tenant: "acc-1" } })]);
  expect(register.rootsOf("acc-1")).toEqual([KEY, other]);
  expect(changes("acc-1"), "a further root").toBeGreaterThan(before);
  const ofRoot = changes(KEY);
  register.apply([record(3, { statement: "revocation_list", digest: digest(3), detail: { place: "7" } })]);
  expect(register.lastList(KEY)).toEqual({ digest: digest(3), updatedAt: 7, listed: null });
  expect(changes(KEY), "a list").toBeGreaterThan(ofRoot);
});
