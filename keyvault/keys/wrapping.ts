import { createCipheriv, createDecipheriv, hash, randomBytes } from "node:crypto";
import { canonicalBytes } from "../../src/protocol/canonical.ts";
import type { HybridPublicKey, HybridSeeds } from "../../src/protocol/hybrid.ts";
import type { Purpose } from "../db/rows.ts";
import { VaultError } from "../errors.ts";

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const SEED_BYTES = 32;

/** Version of the layout of wrapped seeds: nonce (12) ‖ ciphertext of Ed25519 seed ‖ ML-DSA-65 seed (64) ‖ tag (16). */
export const SEEDS_VERSION = 1;

/** What wrapped seeds are bound to: moved to another key, tenant or purpose, or beside another public key, they no longer open. */
export type KeyIdentity = {
  keyId: string;
  tenant: string;
  purpose: Purpose;
  publicKey: HybridPublicKey;
  version: number;
};

/** What a tenant's wrapped data key is bound to. */
export function dataKeyContext(tenant: string): Uint8Array {
  return canonicalBytes({ tenant, type: "tenant_data_key" });
}

/** Encrypts seeds under a data key (AES-256-GCM), bound to the key they belong to. The seeds stay as they are. */
export function wrapSeeds(dataKey: Uint8Array, identity: KeyIdentity, seeds: HybridSeeds): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", dataKey, nonce).setAAD(seedsContext(identity));
  const body = [cipher.update(seeds.ed25519), cipher.update(seeds.ml_dsa_65), cipher.final()];
  return Buffer.concat([nonce, ...body, cipher.getAuthTag()]);
}

/**
 * The seeds that were wrapped for exactly this key. The caller overwrites them after use.
 * @throws VaultError `key_damaged` when box, key or identity were altered
 */
export function unwrapSeeds(dataKey: Uint8Array, identity: KeyIdentity, box: Uint8Array): HybridSeeds {
  const end = box.length - TAG_BYTES;
  if (identity.version !== SEEDS_VERSION || end - NONCE_BYTES !== 2 * SEED_BYTES)
    throw new VaultError("key_damaged");
  const decipher = createDecipheriv("aes-256-gcm", dataKey, box.subarray(0, NONCE_BYTES));
  decipher.setAAD(seedsContext(identity)).setAuthTag(box.subarray(end));
  const seeds = decipher.update(box.subarray(NONCE_BYTES, end));
  try {
    decipher.final();
  } catch {
    seeds.fill(0);
    throw new VaultError("key_damaged");
  }
  return { ed25519: seeds.subarray(0, SEED_BYTES), ml_dsa_65: seeds.subarray(SEED_BYTES) };
}

/** Overwrites seeds that were used. */
export function eraseSeeds(seeds: HybridSeeds): void {
  seeds.ed25519.fill(0);
  seeds.ml_dsa_65.fill(0);
}

function seedsContext({ keyId, tenant, purpose, publicKey, version }: KeyIdentity): Uint8Array {
  const halves = [Buffer.from(publicKey.ed25519, "base64"), Buffer.from(publicKey.ml_dsa_65, "base64")];
  return canonicalBytes({
    key_id: keyId,
    tenant,
    purpose,
    public_key_sha256: hash("sha256", Buffer.concat(halves), "hex"),
    version,
  });
}
