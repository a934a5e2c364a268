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

/** A key as it is stored: its identity, its seeds wrapped, and the data key they are wrapped under. */
export type KeptKey = KeyIdentity & { wrappedSeeds: Uint8Array; dataKey: WrappedDataKey };

/**
 * The only part of the vault that sees seeds. They are unwrapped for one signature, used off the event loop,
 * and overwritten: nothing of them is left when it is made, and nothing waits for a garbage collection.
 */
export type Custody = {
  /** Makes a key under a tenant's data key. Stores nothing yet. */
  generate(dataKey: WrappedDataKey, tenant: string, purpose: Purpose): Promise<KeptKey>;
  /** Both halves' signatures, or a rejection with `VaultError key_damaged` or `token_unavailable`. */
  sign(key: KeptKey, bytes: Uint8Array): Promise<HybridSignature>;
  /**
   * Whether both halves sign for the public key, tried on bytes that are not a statement. Rejects as {@link
   * Custody.sign}.
   */
  holds(key: KeptKey): Promise<boolean>;
};

const PROBE = canonicalBytes({ type: "key_probe" });

/** Custody under data keys that the token wraps. */
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
    holds: async (key) => verifyHybrid(key.publicKey, PROBE, await sign(key, PROBE)),
  };
}
