import { createCipheriv, createDecipheriv, hash, randomBytes } from "node:crypto";
import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import type { HybridPublicKey, HybridSeeds } from "../../src/protocol/keys/hybrid.ts";
import type { Purpose } from "../db/rows.ts";
import { VaultError } from "../errors.ts";

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const SEED_BYTES = 32;
const SEEDS_BYTES = 2 * SEED_BYTES;

/**
 * Number of seed bytes to decrypt at a time. The runtime decrypts into memory that it copies and frees
 * without erasing. After each piece, other text of the same length is encrypted, which overwrites that
 * memory. Longer pieces leave parts of seeds in memory, where the test that scans a running vault finds them.
 */
const PIECE_BYTES = 16;
const NOTHING = Buffer.alloc(PIECE_BYTES);
const wiper = createCipheriv("aes-256-ctr", randomBytes(32), randomBytes(16));

/** Layout of wrapped seeds: nonce (12) ‖ ciphertext of Ed25519 seed ‖ ML-DSA-65 seed (64) ‖ tag (16). */
export const SEEDS_VERSION = 1;

/** Identity of a key. Wrapped seeds do not open for another key, tenant, purpose or public key. */
export type KeyIdentity = {
  keyId: string;
  tenant: string;
  purpose: Purpose;
  publicKey: HybridPublicKey;
  version: number;
};

/** Length of a wrapped data key: nonce (12), key (32) and tag (16). */
const WRAPPED_DATA_KEY_BYTES = 60;
const MAX_TENANT_LENGTH = 128;

/** Returns the context to which a tenant's wrapped data key is bound. */
export function dataKeyContext(tenant: string): Uint8Array {
  return canonicalBytes({ tenant, type: "tenant_data_key" });
}

/**
 * Returns whether a row's data key may be sent to the token together with others. With a wrong length, the
 * whole message would fail. The caller must check the version that the row names.
 */
export function isDataKeyRow({
  tenant,
  wrapped_data_key,
}: {
  tenant: string;
  wrapped_data_key: Uint8Array;
}): boolean {
  return wrapped_data_key.length === WRAPPED_DATA_KEY_BYTES && tenant.length <= MAX_TENANT_LENGTH;
}

/**
 * Encrypts seeds under a data key (AES-256-GCM) and binds them to their key's identity. Seeds do not change.
 */
export function wrapSeeds(dataKey: Uint8Array, identity: KeyIdentity, seeds: HybridSeeds): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", dataKey, nonce).setAAD(seedsContext(identity));
  const body = [cipher.update(seeds.ed25519), cipher.update(seeds.ml_dsa_65), cipher.final()];
  return Buffer.concat([nonce, ...body, cipher.getAuthTag()]);
}

/**
 * Returns the seeds that were wrapped for exactly this key. The caller overwrites them after use. Throws
 * `VaultError` `key_damaged` if the box, the data key or the identity was altered.
 */
export function unwrapSeeds(dataKey: Uint8Array, identity: KeyIdentity, box: Uint8Array): HybridSeeds {
  if (identity.version !== SEEDS_VERSION) {
    throw new VaultError("key_damaged", "The key lives in the token, which this version does not support");
  }
  const end = box.length - TAG_BYTES;
  if (end - NONCE_BYTES !== SEEDS_BYTES) throw new VaultError("key_damaged");
  const decipher = createDecipheriv("aes-256-gcm", dataKey, box.subarray(0, NONCE_BYTES));
  decipher.setAAD(seedsContext(identity)).setAuthTag(box.subarray(end));
  const seeds = Buffer.from(new ArrayBuffer(SEEDS_BYTES));
  for (let at = 0; at < SEEDS_BYTES; at += PIECE_BYTES) {
    const piece = decipher.update(box.subarray(NONCE_BYTES + at, NONCE_BYTES + at + PIECE_BYTES));
    wiper.update(NOTHING);
    seeds.set(piece, at);
    piece.fill(0);
  }
  try {
    decipher.final();
  } catch {
    seeds.fill(0);
    throw new VaultError("key_damaged");
  }
  return { ed25519: seeds.subarray(0, SEED_BYTES), ml_dsa_65: seeds.subarray(SEED_BYTES) };
}

/** Overwrites seeds after use. */
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

/**
 * Copies the bytes into a buffer of their own. Short buffers from the database driver and from `Buffer.from`
 * are slices of a 64 KiB pool. A cached slice would keep the whole pool in memory.
 */
export function ownBytes(bytes: Uint8Array): Buffer {
  const own = Buffer.from(new ArrayBuffer(bytes.length));
  own.set(bytes);
  return own;
}
