import { ALGORITHMS, type SigningKey } from "../../src/protocol/algorithms.ts";
import { decodeBase64, encodeBase64 } from "../../src/protocol/base64.ts";
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
import { VaultError } from "../errors.ts";
import type { Token } from "../token/client.ts";
import { DamagedBox } from "../token/fault.ts";
import type { Half } from "../token/messages.ts";
import type { DataKeys, WrappedDataKey } from "./data_keys.ts";
import type { Resident } from "./residency.ts";
import {
  eraseSeeds,
  HALF_VERSION,
  type KeyIdentity,
  RESIDENT_VERSION,
  SEEDS_VERSION,
  unwrapHalf,
  unwrapSeeds,
  wrapHalf,
  wrapSeeds,
} from "./wrapping.ts";

/**
 * A key as it is stored: its identity, its seeds wrapped, and the data key they are wrapped under. `resident` is the label of the halves
 * that live in the token instead, or null.
 */
export type KeptKey = KeyIdentity & {
  wrappedSeeds: Uint8Array;
  dataKey: WrappedDataKey;
  resident: string | null;
};

/** The only part of the vault that sees seeds. They are unwrapped for one signature, used off the event loop, and overwritten. */
export type Custody = {
  /** Makes a key under a tenant's data key, around the halves that the token has made, if any; nothing is stored yet. */
  generate(dataKey: WrappedDataKey, tenant: string, purpose: Purpose, resident?: Resident): Promise<KeptKey>;
  /** Both halves' signatures, or a rejection with `VaultError key_damaged` or `token_unavailable`. */
  sign(key: KeptKey, bytes: Uint8Array): Promise<HybridSignature>;
  /** The public key that the wrapped seeds really have; of halves in the token, the one they are held against at each signature. */
  publicKey(key: KeptKey): Promise<HybridPublicKey>;
};

const ML_DSA = ALGORITHMS.ml_dsa_65.native ?? ALGORITHMS.ml_dsa_65.reference;

/** Custody under data keys that the token wraps, and of keys that live in it. */
export function createCustody(dataKeys: DataKeys, token: Pick<Token, "signResident">): Custody {
  async function open(key: KeptKey): Promise<HybridPrivateKey> {
    if (key.version === SEEDS_VERSION)
      return dataKeys.use(key.dataKey, (dataKey) => consume(unwrapSeeds(dataKey, key, key.wrappedSeeds)));
    const ed25519 = residentHalf(key, "ed25519");
    if (key.version === RESIDENT_VERSION) return { ed25519, ml_dsa_65: residentHalf(key, "ml_dsa_65") };
    const ml_dsa_65 = await dataKeys.use(key.dataKey, (dataKey) =>
      consumeHalf(unwrapHalf(dataKey, key, key.wrappedSeeds)),
    );
    return { ed25519, ml_dsa_65 };
  }

  /** Signs in the token, and holds what comes back against the attested public key: another label's signature never leaves. */
  function residentHalf({ resident, publicKey }: KeptKey, half: Half): SigningKey {
    const { native, reference, publicKeyBytes } = ALGORITHMS[half];
    const own = decodeBase64(publicKey[half], publicKeyBytes);
    return {
      publicKey: own,
      async sign(bytes) {
        if (resident === null) throw new VaultError("key_damaged");
        const signature = await token.signResident(resident, half, bytes).catch(damaged);
        const holds = await (native ?? reference).verifyingKey(own)?.verify(bytes, signature);
        if (holds !== true) throw new VaultError("key_damaged");
        return signature;
      },
    };
  }

  async function generateAround(
    dataKey: WrappedDataKey,
    { label, publicKeys }: Resident,
    about: Pick<KeyIdentity, "tenant" | "purpose">,
  ): Promise<KeptKey> {
    const { ed25519, ml_dsa_65 } = publicKeys;
    if (ed25519 === undefined) throw new VaultError("internal", "The token made no Ed25519 half");
    const { ml_dsa_65: seed } = generateSeeds();
    try {
      const other = ml_dsa_65 ?? ML_DSA.signingKey(seed).publicKey;
      const publicKey = { ed25519: encodeBase64(ed25519), ml_dsa_65: encodeBase64(other) };
      const version = ml_dsa_65 === undefined ? HALF_VERSION : RESIDENT_VERSION;
      const identity = { ...about, keyId: keyId(publicKey), publicKey, version };
      const wrappedSeeds =
        version === RESIDENT_VERSION
          ? Buffer.alloc(0)
          : await dataKeys.use(dataKey, (opened) => wrapHalf(opened, identity, seed));
      return { ...identity, wrappedSeeds, dataKey, resident: label };
    } finally {
      seed.fill(0);
    }
  }

  return {
    async generate(dataKey, tenant, purpose, resident) {
      if (resident !== undefined) return generateAround(dataKey, resident, { tenant, purpose });
      const seeds = generateSeeds();
      try {
        const publicKey = publicKeyOf(importSeeds(seeds));
        const identity = { keyId: keyId(publicKey), tenant, purpose, publicKey, version: SEEDS_VERSION };
        const wrappedSeeds = await dataKeys.use(dataKey, (opened) => wrapSeeds(opened, identity, seeds));
        return { ...identity, wrappedSeeds, dataKey, resident: null };
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

function consumeHalf(seed: Uint8Array): SigningKey {
  try {
    return ML_DSA.signingKey(seed);
  } finally {
    seed.fill(0);
  }
}

function damaged(error: unknown): never {
  throw error instanceof DamagedBox ? new VaultError("key_damaged", undefined, { cause: error }) : error;
}
