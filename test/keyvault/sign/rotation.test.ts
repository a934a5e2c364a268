import { afterAll, beforeAll, expect, test } from "vitest";
import { unixSeconds } from "../../../keyvault/clock.ts";
import { isRefusal } from "../../../keyvault/errors.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { createKeyDisabling } from "../../../keyvault/keys/disable.ts";
import { createRotationSigning } from "../../../keyvault/sign/rotation.ts";
import { verifyHybrid } from "../../../src/protocol/hybrid.ts";
import { keyRotationSignBytes } from "../../../src/protocol/key_rotation.ts";
import { API, startVault, type TestVault } from "../fixture.ts";

let vault: TestVault;
let old: CreatedKey;
let fresh: CreatedKey;
let off: CreatedKey;

const order = { tenant: "acc-1", purpose: "agent", label: "agent", ceiling: [] } as const;

beforeAll(async () => {
  vault = await startVault();
  const make = () => vault.makeKey({ ...order, ceiling: [] });
  [old, fresh, off] = [await make(), await make(), await make()];
  await createKeyDisabling({ ...vault.vault, clock: vault.clock })(API, {
    keyId: off.key_id,
    tenant: "acc-1",
  });
});
afterAll(() => vault.close());

function rotate(from: string, to: string, offset = 0) {
  const rotated_at = unixSeconds(vault.clock.now()) + offset;
  return createRotationSigning({ ...vault.vault, clock: vault.clock })(API, from, {
    tenant: "acc-1",
    new_id: to,
    rotated_at,
    reason: "routine",
  });
}

const records = (after: number) =>
  vault.home.sql("SELECT key_id, outcome FROM audit WHERE seq > $1 ORDER BY seq", [after]);
const head = () => vault.vault.journal.head().seq;

test("is signed by both keys, each with its record, and both halves of both verify", async () => {
  const before = head();
  const signed = await rotate(old.key_id, fresh.key_id);
  if (isRefusal(signed)) throw new Error(signed.message);
  const bytes = keyRotationSignBytes(signed);
  expect(await verifyHybrid(old.public_key, bytes, signed.signature_old)).toBe(true);
  expect(await verifyHybrid(fresh.public_key, bytes, signed.signature_new)).toBe(true);
  expect(await records(before)).toEqual([
    { key_id: old.key_id, outcome: "granted" },
    { key_id: fresh.key_id, outcome: "granted" },
  ]);
});

test("accepts rotated_at 60 s to either side of its clock, and refuses 61 s", async () => {
  for (const offset of [-60, 60])
    expect(await rotate(old.key_id, fresh.key_id, offset)).toHaveProperty("signature_new");
  for (const offset of [-61, 61])
    expect(await rotate(old.key_id, fresh.key_id, offset)).toMatchObject({ refused: "policy_violation" });
});

test.each<[string, () => [CreatedKey, CreatedKey], string]>([
  ["to a disabled key", () => [old, off], "key_disabled"],
  ["from a disabled key", () => [off, fresh], "key_disabled"],
  ["to itself", () => [old, old], "policy_violation"],
])("refuses a rotation %s, and signs with neither key", async (_, pair, refused) => {
  const [from, to] = pair();
  const before = head();
  expect(await rotate(from.key_id, to.key_id)).toMatchObject({ refused });
  expect(await records(before)).toEqual([{ key_id: from.key_id, outcome: refused }]);
});
