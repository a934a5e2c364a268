import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createChanges } from "../../../keyvault/keys/changes.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { startVault, type TestVault } from "../fixture.ts";

let vault: TestVault;
let agent: CreatedKey;

beforeAll(async () => {
  vault = await startVault();
  agent = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "one" });
});
afterAll(() => vault.close());

test("a remembered key keeps nothing in memory but its own bytes, and not what signing has no use for", async () => {
  const { store } = vault.vault;
  const key = await store.find(agent.key_id);
  expect(await store.find(agent.key_id), "it is remembered").toBe(key);
  for (const bytes of [key!.wrappedSeeds, key!.dataKey.wrapped_data_key]) {
    expect([bytes.length > 0, bytes.buffer.byteLength]).toEqual([true, bytes.length]);
  }
  expect(JSON.stringify(key)).toContain(agent.public_key.ml_dsa_65);
  expect(JSON.stringify(key)).not.toContain(agent.attestation.signature.ml_dsa_65);
});

test("a change has happened after every count before it, and after none from it on", () => {
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

test("however few keys are remembered, no change goes unseen; and while all are, none is made up", () => {
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
