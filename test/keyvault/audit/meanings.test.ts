import { expect, test } from "vitest";
import { createReplay } from "../../../keyvault/audit/meanings.ts";
import type { AuditRow } from "../../../keyvault/db/rows.ts";

const KEY = "0".repeat(32);

type Said = Partial<Omit<AuditRow, "digest">> & { digest?: number };

/** What a replay finds in these records; those that do not say otherwise are granted and of one key. */
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
  ["after a disabling that one admin alone wants undone", [made, disable, step("key_enable", "asked"), use]],
  ["after its destruction was granted", [made, step("key_destroy", "done"), use]],
  [
    "after its destruction was taken back, which leaves it disabled",
    [made, step("key_destroy", "done"), { statement: "key_destroy_cancel" }, use],
  ],
  ["after its erasure", [made, step("key_destroy", "done"), { statement: "key_erase" }, use]],
  ["after its tenant's destruction was granted", [made, ofTenant("tenant_destroy", "done"), use]],
  ["after its tenant's erasure, whatever told of its destruction", [made, ofTenant("tenant_erase"), use]],
])("a key that is used %s is found", (_, records) => {
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
])("a %s is a use of a key", (statement) => {
  expect(found(made, disable, { statement })).toEqual([
    { seq: 3, what: `${statement} by key ${KEY} after it was disabled` },
  ]);
});

test("of contradictions without end the first hundred are reported", () => {
  const uses = Array.from({ length: 150 }, () => use);
  expect(found(made, disable, ...uses).map(({ seq }) => seq)).toEqual(
    Array.from({ length: 100 }, (_, index) => index + 3),
  );
});

test.each<[string, Said[]]>([
  ["is active", [made, use]],
  ["was enabled by two", [made, disable, step("key_enable", "asked"), step("key_enable", "done"), use]],
  ["is wanted destroyed by one admin alone", [made, step("key_destroy", "asked"), use]],
  [
    "was wanted destroyed, and is not any more",
    [made, step("key_destroy", "asked"), { statement: "key_destroy_cancel" }, use],
  ],
  [
    "has a tenant whose destruction was taken back",
    [made, ofTenant("tenant_destroy", "done"), ofTenant("tenant_destroy_cancel"), use],
  ],
  ["is refused after it was disabled", [made, disable, { outcome: "key_disabled" }]],
])("nothing is found in a key that %s", (_, records) => {
  expect(found(...records)).toEqual([]);
});

const placed = (place: number, digest: number, stream = "a"): Said => {
  return { statement: "checkpoint", digest, detail: { stream, place: String(place) } };
};

test("two statements for one place are found, and one before the last; the same one again, and another stream's, are well", () => {
  expect(found(placed(1, 1), placed(1, 1), placed(2, 2), placed(1, 3, "b"))).toEqual([]);
  expect(found(placed(7, 1), placed(7, 2))).toEqual([{ seq: 2, what: "a second checkpoint for one place" }]);
  expect(found(placed(7, 1), placed(6, 2))).toEqual([
    { seq: 2, what: "checkpoint at a place before the last one" },
  ]);
});

test("two revocation lists for one time, and one before the last, are found", () => {
  const list = (place: number, digest: number): Said => {
    return { statement: "revocation_list", digest, detail: { place: String(place), listed: "" } };
  };
  expect(found(list(7, 1), list(7, 1), list(8, 2))).toEqual([]);
  expect(found(list(7, 1), list(7, 2))).toEqual([{ seq: 2, what: "a second revocation_list for one place" }]);
  expect(found(list(7, 1), list(6, 2))).toEqual([
    { seq: 2, what: "revocation_list at a place before the last one" },
  ]);
});

test("rows taken over by a start once more after that had ended are found; those that two admins adopted are not", () => {
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
