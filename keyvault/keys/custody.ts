import {
  generateSeeds,
  type HybridPrivateKey,
  type HybridPublicKey,
  type HybridSeeds,
  type HybridSignature,
  importSeeds,
  keyId,
  publicKeyOf,
  signHybrid,
} from "../../src/protocol/hybrid.ts";
import type { Purpose } from "../db/rows.ts";
import type { DataKeys, WrappedDataKey } from "./data_keys.ts";
import { eraseSeeds, type KeyIdentity, SEEDS_VERSION, unwrapSeeds, wrapSeeds } from "./wrapping.ts";

/** A key as it is stored: its identity, its seeds wrapped, and the data key they are wrapped under. */
export type KeptKey = KeyIdentity & { wrappedSeeds: Uint8Array; dataKey: WrappedDataKey };

/** The only part of the vault that sees seeds. They are unwrapped for one signature, used off the event loop, and overwritten. */
export type Custody = {
  /** Makes a key under a tenant's data key; nothing is stored yet. */
  generate(dataKey: WrappedDataKey, tenant: string, purpose: Purpose): Promise<KeptKey>;
  /** Both halves' signatures, or a rejection with `VaultError key_damaged` or `token_unavailable`. */
  sign(key: KeptKey, bytes: Uint8Array): Promise<HybridSignature>;
  /** The public key that the wrapped seeds really have. */
  publicKey(key: KeptKey): Promise<HybridPublicKey>;
};

/** Custody under data keys that the token wraps. */
export function createCustody(dataKeys: DataKeys): Custody {
  async function open(key: KeptKey): Promise<HybridPrivateKey> {
    return dataKeys.use(key.dataKey, (dataKey) => {
      const seeds = unwrapSeeds(dataKey, key, key.wrappedSeeds);
      return consume(seeds);
    });
  }

  return {
    async generate(dataKey, tenant, purpose) {
      const seeds = generateSeeds();
      try {
        const publicKey = publicKeyOf(importSeeds(seeds));
        const identity = { keyId: keyId(publicKey), tenant, purpose, publicKey, version: SEEDS_VERSION };
        const wrappedSeeds = await dataKeys.use(dataKey, (opened) => wrapSeeds(opened, identity, seeds));
        return { ...identity, wrappedSeeds, dataKey };
      } finally {
        eraseSeeds(seeds);
      }
    },
    sign: async (key, bytes) => signHybrid(await open(key), bytes),
    publicKey: async (key) => publicKeyOf(await open(key)),
  };
}

function consume(seeds: HybridSeeds): HybridPrivateKey {
  try {
    return importSeeds(seeds);
  } finally {
    eraseSeeds(seeds);
  }
}
