import { expect, test } from "vitest";
import { createRowCodes } from "../../../keyvault/audit/row_codes.ts";
import type { KeyRow } from "../../../keyvault/db/rows.ts";
import { canonicalBytes } from "../../../src/protocol/encoding/canonical.ts";

const token = { authenticate: async (texts: Uint8Array[]) => texts.map((text) => Buffer.from(text)) };
const register = { head: () => ({ seq: 9, mac: Buffer.alloc(32) }), changedAt: () => 9, isLast: () => true };
const rowCodes = createRowCodes(token, register);

const row = {
  ...{ key_id: "k-1", tenant: "acc-1", purpose: "agent", label: "agent", state: "active", ceiling: [] },
  ...{ pending: null, disabled_at: null, destroy_at: null, state_seq: 9 },
  ...{ request_key: "api:name", request_hash: Buffer.alloc(32, 1) },
} as unknown as KeyRow;
const earlierCode = Buffer.from(
  canonicalBytes({
    ...{ type: "key_state", key_id: "k-1", tenant: "acc-1", state: "active", ceiling: [] },
    ...{ pending: null, disabled_at: null, destroy_at: null, seq: 9 },
  }),
);
const check = (...keys: KeyRow[]) => rowCodes.check({ keys, tenants: [] });

test("an earlier version's code is valid, and a new code also covers purpose, label and request", async () => {
  const earlier = { ...row, state_mac: earlierCode };
  const { keys } = await rowCodes.add({ keys: [row], tenants: [] });
  const newer = keys[0] as KeyRow;
  expect(await check(earlier, newer, { ...earlier, ceiling: null }, newer)).toEqual([
    true,
    true,
    false,
    true,
  ]);
  const another = { purpose: "account_root", label: "x", request_key: "x", request_hash: Buffer.alloc(32) };
  for (const [column, value] of Object.entries(another)) {
    expect(await check({ ...newer, [column]: value }), column).toEqual([false]);
  }
});
