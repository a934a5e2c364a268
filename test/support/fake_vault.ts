import { randomUUID } from "node:crypto";
import {
  generateSeeds,
  type HybridPrivateKey,
  type HybridPublicKey,
  importSeeds,
  publicKeyOf,
} from "../../src/protocol/hybrid.ts";
import type { VaultClient } from "../../src/vault/client.ts";

/** What tests may look at and break in the fake vault. */
export type FakeVault = Pick<VaultClient, "createKey"> & {
  /** While set, every call rejects with it. */
  failure: Error | undefined;
  /** Keys by id, with the private halves that the real vault never gives. */
  keys: Map<
    string,
    { tenant: string; purpose: string; privateKey: HybridPrivateKey; publicKey: HybridPublicKey }
  >;
};

/** A vault in memory with real keys: the same idempotency key gives the same key again. */
export function createFakeVault(): FakeVault {
  const made = new Map<string, string>();
  const vault: FakeVault = {
    failure: undefined,
    keys: new Map(),
    async createKey({ tenant, purpose }, idempotencyKey) {
      if (vault.failure !== undefined) throw vault.failure;
      const keyId = made.get(idempotencyKey) ?? randomUUID();
      made.set(idempotencyKey, keyId);
      const privateKey = vault.keys.get(keyId)?.privateKey ?? importSeeds(generateSeeds());
      const publicKey = publicKeyOf(privateKey);
      vault.keys.set(keyId, { tenant, purpose, privateKey, publicKey });
      return { key_id: keyId, public_key: publicKey, attestation: {} } as never;
    },
  };
  return vault;
}
