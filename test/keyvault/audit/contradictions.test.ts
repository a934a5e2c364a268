import { expect, test } from "vitest";
import { createReplay } from "../../../keyvault/audit/contradictions.ts";
import type { AuditRow } from "../../../keyvault/db/rows.ts";

const KEY = "0".repeat(32);

type Said = Partial<Omit<AuditRow, "digest">> & { digest?: number };

/** By default, the records are granted and belong to the same key. */
function found(...said: Said[]) {
  const replay = createReplay();
  const records = said.map(({ digest = 1, ...rest }, index) => ({
    seq: index + 1,
    recorded_at: new Date(0),
    caller: "api",
    role: "api",
    key_id: KEY,
    purpose: "agent",
    statement: "challenge",
    digest: Buffer.alloc(32, digest),
    outcome: "granted",
    detail: {},
    mac: Buffer.alloc(32),
    ...rest,
  }));
  replay.take(records);
  return replay.found();
}

const made: Said = { statement: "key_create", detail: { tenant: "acc-1" } };
const step = (statement: string, name: "asked" | "done"): Said => ({ statement, detail: { step: name } });
const disable: Said = { statement: "key_disable" };
const use: Said = {};
const ofTenant = (statement: string, name?: "asked" | "done"): Said => ({
  statement,
  key_id: null,
  detail: { tenant: "acc-1", ...(name && { step: name }) },
});

test.each<[string, Said[]]>([
  ["after it was disabled", [made, disable, use]],
  [
    "while disabled, with one admin's request to enable it",
    [made, disable, step("key_enable", "asked"), use],
  ],
  ["after its destruction was approved", [made, step("key_destroy", "done"), use]],
  [
    "after its destruction was cancelled, which leaves it disabled",
    [made, step("key_destroy", "done"), { statement: "key_destroy_cancel" }, use],
  ],
  ["after its erasure", [made, step("key_destroy", "done"), { statement: "key_erase" }, use]],
  ["after its tenant's destruction was approved", [made, ofTenant("tenant_destroy", "done"), use]],
  ["after its tenant's erasure without a recorded destruction", [made, ofTenant("tenant_erase"), use]],
])("the replay reports a key that was used %s", (_, records) => {
  expect(found(...records)).toEqual([{ seq: records.length, what: expect.stringContaining(KEY) }]);
});

test.each([
  ...[
    "delegation",
    "challenge",
    "revocation_list",
    "revocation_push",
    "key_rotation",
    "receipt",
    "checkpoint",
  ],
])("the replay counts a %s as a use of a key", (statement) => {
  expect(found(made, disable, { statement })).toEqual([
    { seq: 3, what: `${statement} by key ${KEY} after it was disabled` },
  ]);
});

test("the replay reports only the first hundred contradictions", () => {
  const uses = Array.from({ length: 150 }, () => use);
  expect(found(made, disable, ...uses).map(({ seq }) => seq)).toEqual(
    Array.from({ length: 100 }, (_, index) => index + 3),
  );
});

test.each<[string, Said[]]>([
  ["is active", [made, use]],
  [
    "was enabled by two admins",
    [made, disable, step("key_enable", "asked"), step("key_enable", "done"), use],
  ],
  ["has one admin's request to destroy it", [made, step("key_destroy", "asked"), use]],
  [
    "had one admin's request to destroy it, which was cancelled",
    [made, step("key_destroy", "asked"), { statement: "key_destroy_cancel" }, use],
  ],
  [
    "has a tenant whose destruction was cancelled",
    [made, ofTenant("tenant_destroy", "done"), ofTenant("tenant_destroy_cancel"), use],
  ],
  ["was used after it was disabled, but only in refused calls", [made, disable, { outcome: "key_disabled" }]],
])("the replay reports nothing for a key that %s", (_, records) => {
  expect(found(...records)).toEqual([]);
});

const placed = (place: number, digest: number, stream = "a"): Said => {
  return { statement: "checkpoint", digest, detail: { stream, place: String(place) } };
};

test("the replay reports a reused or lower sequence number of a stream, but not a repeated statement", () => {
  expect(found(placed(1, 1), placed(1, 1), placed(2, 2), placed(1, 3, "b"))).toEqual([]);
  expect(found(placed(7, 1), placed(7, 2))).toEqual([{ seq: 2, what: "a second checkpoint for one place" }]);
  expect(found(placed(7, 1), placed(6, 2))).toEqual([
    { seq: 2, what: "checkpoint at a place before the last one" },
  ]);
});

test("the replay reports two revocation lists with the same time, and a list older than the previous one", () => {
  const list = (place: number, digest: number): Said => {
    return { statement: "revocation_list", digest, detail: { place: String(place), listed: "" } };
  };
  expect(found(list(7, 1), list(7, 1), list(8, 2))).toEqual([]);
  expect(found(list(7, 1), list(7, 2))).toEqual([{ seq: 2, what: "a second revocation_list for one place" }]);
  expect(found(list(7, 1), list(6, 2))).toEqual([
    { seq: 2, what: "revocation_list at a place before the last one" },
  ]);
});

test("the replay reports rows adopted automatically after adoption had finished, but not rows adopted by two admins", () => {
  const adopt = (detail: Record<string, string>): Said => ({
    statement: "state_adopt",
    key_id: null,
    detail,
  });
  expect(found(adopt({ rows: "5" }), adopt({ rows: "0" }), adopt({ rows: "3", step: "done" }))).toEqual([]);
  expect(found(adopt({ rows: "5" }), adopt({ rows: "0" }), adopt({ rows: "1" }))).toEqual([
    { seq: 3, what: "rows were taken over once more" },
  ]);
});
