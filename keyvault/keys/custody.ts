import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import {
  generateKeys,
  type HybridSignature,
  keyId,
  signHybridOnce,
  verifyHybrid,
} from "../../src/protocol/keys/hybrid.ts";
import type { Purpose } from "../db/rows.ts";
import type { DataKeys, WrappedDataKey } from "./data_keys.ts";
import { eraseSeeds, type KeyIdentity, SEEDS_VERSION, unwrapSeeds, wrapSeeds } from "./wrapping.ts";

/** A key as stored: its identity, its wrapped seeds, and the data key under which they are wrapped. */
export type KeptKey = KeyIdentity & { wrappedSeeds: Uint8Array; dataKey: WrappedDataKey };

/**
 * The only part of the vault that sees seeds. It unwraps them for one signature, signs outside the event
 * loop, and then overwrites them. After the signature no copy remains in memory, not even for the garbage
 * collector.
 */
export type Custody = {
  /** Generates a key and wraps its seeds under a tenant's data key. Does not store the key. */
  generate(dataKey: WrappedDataKey, tenant: string, purpose: Purpose): Promise<KeptKey>;
  /** Returns the signatures of both halves. Rejects with `VaultError key_damaged` or `token_unavailable`. */
  sign(key: KeptKey, bytes: Uint8Array): Promise<HybridSignature>;
  /**
   * Returns whether both halves of the key produce valid signatures for its public key. Signs bytes that are
   * not a statement. Rejects like {@link Custody.sign}.
   */
  isIntact(key: KeptKey): Promise<boolean>;
};

const PROBE = canonicalBytes({ type: "key_probe" });

/** Returns a custody that uses these data keys. */
export function createCustody(dataKeys: DataKeys): Custody {
  async function sign(key: KeptKey, bytes: Uint8Array): Promise<HybridSignature> {
    return dataKeys.use(key.dataKey, (dataKey) => {
      const seeds = unwrapSeeds(dataKey, key, key.wrappedSeeds);
      try {
        return signHybridOnce(seeds, bytes);
      } finally {
        eraseSeeds(seeds);
      }
    });
  }

  return {
    async generate(dataKey, tenant, purpose) {
      const { seeds, publicKey } = await generateKeys();
      try {
        const identity = { keyId: keyId(publicKey), tenant, purpose, publicKey, version: SEEDS_VERSION };
        const wrappedSeeds = await dataKeys.use(dataKey, (opened) => wrapSeeds(opened, identity, seeds));
        return { ...identity, wrappedSeeds, dataKey };
      } finally {
        eraseSeeds(seeds);
      }
    },
    sign,
    isIntact: async (key) => verifyHybrid(key.publicKey, PROBE, await sign(key, PROBE)),
  };
}
