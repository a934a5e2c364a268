import fc from "fast-check";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createChanges } from "../../../keyvault/keys/changes.ts";
import { createKeyStore } from "../../../keyvault/keys/store.ts";
import { startVault, type TestVault } from "../fixture.ts";

let vault: TestVault;

beforeAll(async () => {
  vault = await startVault();
});
afterAll(() => vault.close());

test("a cached key contains only its own bytes, and only the fields that signing needs", async () => {
  const agent = await vault.makeAgent("acc-1");
  const { store } = vault.vault;
  const key = await store.find(agent.key_id);
  expect(await store.find(agent.key_id), "it is remembered").toBe(key);
  for (const bytes of [key!.wrappedSeeds, key!.dataKey.wrapped_data_key]) {
    expect([bytes.length > 0, bytes.buffer.byteLength]).toEqual([true, bytes.length]);
  }
  expect(JSON.stringify(key)).toContain(agent.public_key.ml_dsa_65);
  expect(JSON.stringify(key)).not.toContain(agent.attestation.signature.ml_dsa_65);
});

test("find() takes as long for another tenant's cached key as for a missing key", async () => {
  const { key_id } = await vault.makeAgent("acc-own");
  const { database, store } = vault.vault;
  let queries = 0;
  const count = () => {
    queries += 1;
  };
  const costs = async (keyId: string, tenant: string): Promise<[number, boolean]> => {
    queries = 0;
    const found = await store.find(keyId, tenant);
    return [queries, found !== undefined];
  };
  database.on("query", count);
  try {
    await store.find(key_id, "acc-own");
    expect(await costs(key_id, "acc-own")).toEqual([0, true]);
    expect(await costs(key_id, "acc-other")).toEqual([1, false]);
    expect(await costs("f".repeat(32), "acc-other")).toEqual([1, false]);
  } finally {
    database.off("query", count);
  }
});

test("a key is cached for a minute, then read again", async () => {
  const { key_id } = await vault.makeAgent("acc-minute");
  const { store } = vault.vault;
  await store.find(key_id);
  await vault.home.sql("update keys set label = 'altered' where key_id = $1", [key_id]);
  expect(await store.find(key_id)).toMatchObject({ label: "agent" });
  const now = performance.now();
  const clock = vi.spyOn(performance, "now").mockImplementation(() => now + 60_001);
  try {
    await new Promise((resolve) => setTimeout(resolve, 10));
    await expect(store.find(key_id)).rejects.toMatchObject({ code: "key_damaged" });
  } finally {
    clock.mockRestore();
  }
});

type Check = TestVault["vault"]["rowCodes"]["check"];

async function storeThat(check: (judge: Check, rows: Parameters<Check>[0]) => ReturnType<Check>) {
  const { database, rowCodes, service } = vault.vault;
  const { publicKey } = await service.read();
  const judging = { ...rowCodes, check: (rows: Parameters<Check>[0]) => check(rowCodes.check, rows) };
  return createKeyStore(database, judging, () => publicKey);
}

test("a key that changes while it is read is not cached", async () => {
  const { key_id } = await vault.makeAgent("acc-1");
  let changes = 1;
  const late = await storeThat(async (judge, rows) => {
    const holds = await judge(rows);
    if (changes-- > 0) {
      await vault.disable(key_id, "acc-1");
      late.changed(key_id);
    }
    return holds;
  });
  expect((await late.find(key_id))?.state).toBe("active");
  expect((await late.find(key_id))?.state).toBe("disabled");
});

test("a key that changes while it is read is read again and not reported as damaged", async () => {
  const { key_id } = await vault.makeAgent("acc-1", ["data:read", "data:write"]);
  const ceilings = [["data:read", "data:write"], ["data:read"], []];
  const late = await storeThat(async (judge, rows) => {
    const next = ceilings.shift();
    if (next !== undefined) await vault.shrink(key_id, "acc-1", next);
    return judge(rows);
  });
  expect((await late.find(key_id))?.ceiling).toEqual([]);
  expect(ceilings).toEqual([]);
});

test("createChanges reports a key as changed since any count before the change, but not since a later count", () => {
  const changes = createChanges(10);
  changes.note("a");
  const before = changes.count();
  expect(changes.happened("a", before)).toBe(false);
  changes.note("b");
  expect(changes.happened("a", before)).toBe(false);
  expect(changes.happened("b", before)).toBe(true);
  expect(changes.happened("b", changes.count())).toBe(false);
  changes.note();
  expect(changes.happened("a", before + 1)).toBe(true);
  expect(changes.happened("never seen", before + 1)).toBe(true);
  expect(changes.happened("a", changes.count())).toBe(false);
});

test("createChanges misses no change with any cache size, and reports no false change if all keys fit in the cache", () => {
  const keys = ["a", "b", "c", "d"];
  const steps = fc.array(fc.constantFrom(...keys, undefined), { maxLength: 30 });
  const key = fc.constantFrom(...keys);
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4 }), steps, key, fc.nat(30), (most, steps, key, count) => {
      const changes = createChanges(most);
      for (const step of steps) changes.note(step);
      const changed = steps.slice(count).some((step) => step === undefined || step === key);
      const told = changes.happened(key, count);
      expect(most === keys.length ? told : told || !changed).toBe(most === keys.length ? changed : true);
    }),
  );
});
