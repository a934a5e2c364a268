import { afterAll, beforeAll, expect, test } from "vitest";
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
