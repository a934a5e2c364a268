import { decodeBase64, encodeBase64 } from "../../src/protocol/encoding/base64.ts";
import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import { ALGORITHMS } from "../../src/protocol/keys/algorithms.ts";
import {
  generateKeys,
  type HybridSeeds,
  type HybridSignature,
  keyId,
  signHybridOnce,
  verifyHybrid,
} from "../../src/protocol/keys/hybrid.ts";
import type { Purpose } from "../db/rows.ts";
import { VaultError } from "../errors.ts";
import type { Token } from "../token/client.ts";
import type { Half } from "../token/messages.ts";
import { DamagedBox } from "../token/token_error.ts";
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
 * A key as it is stored: its identity, its seeds wrapped, and the data key they are wrapped under. `resident`
 * is the label of the halves that live in the token instead, or null.
 */
export type KeptKey = KeyIdentity & {
  wrappedSeeds: Uint8Array;
  dataKey: WrappedDataKey;
  resident: string | null;
};

/**
 * The only part of the vault that sees seeds. They are unwrapped for one signature, used off the event loop,
 * and overwritten: nothing of them is left when it is made, and nothing waits for a garbage collection.
 */
export type Custody = {
  /**
   * Makes a key under a tenant's data key, around the halves that the token has made, if any; nothing is
   * stored yet.
   */
  generate(dataKey: WrappedDataKey, tenant: string, purpose: Purpose, resident?: Resident): Promise<KeptKey>;
  /** Both halves' signatures, or a rejection with `VaultError key_damaged` or `token_unavailable`. */
  sign(key: KeptKey, bytes: Uint8Array): Promise<HybridSignature>;
  /**
   * Whether both halves sign for the public key, tried on bytes that are not a statement. Rejects as {@link
   * Custody.sign}.
   */
  holds(key: KeptKey): Promise<boolean>;
};

const ML_DSA = ALGORITHMS.ml_dsa_65.native ?? ALGORITHMS.ml_dsa_65.reference;
const PROBE = canonicalBytes({ type: "key_probe" });

/** Custody under data keys that the token wraps, and of keys that live in it. */
export function createCustody(dataKeys: DataKeys, token: Pick<Token, "signResident">): Custody {
  async function sign(key: KeptKey, bytes: Uint8Array): Promise<HybridSignature> {
    if (key.version === SEEDS_VERSION) {
      return dataKeys.use(key.dataKey, (dataKey) =>
        consume(unwrapSeeds(dataKey, key, key.wrappedSeeds), (seeds) => signHybridOnce(seeds, bytes)),
      );
    }
    const [ed25519, ml_dsa_65] = await Promise.all([
      signResident(key, "ed25519", bytes),
      key.version === RESIDENT_VERSION ? signResident(key, "ml_dsa_65", bytes) : signHalf(key, bytes),
    ]);
    return { ed25519: encodeBase64(ed25519), ml_dsa_65: encodeBase64(ml_dsa_65) };
  }

  /**
   * Signs in the token, and checks the result with the attested public key: another label's signature never
   * leaves.
   */
  async function signResident(
    { resident, publicKey }: KeptKey,
    half: Half,
    bytes: Uint8Array,
  ): Promise<Uint8Array> {
    const { native, reference, publicKeyBytes } = ALGORITHMS[half];
    const own = decodeBase64(publicKey[half], publicKeyBytes);
    if (resident === null) throw new VaultError("key_damaged");
    const signature = await token.signResident(resident, half, bytes).catch(damaged);
    const holds = await (native ?? reference).verifyingKey(own)?.verify(bytes, signature);
    if (holds !== true) throw new VaultError("key_damaged");
    return signature;
  }

  /** Signs with the ML-DSA-65 half, where that alone is wrapped. */
  async function signHalf(key: KeptKey, bytes: Uint8Array): Promise<Uint8Array> {
    return dataKeys.use(key.dataKey, (dataKey) => {
      const seed = unwrapHalf(dataKey, key, key.wrappedSeeds);
      try {
        return ML_DSA.signOnce(seed, bytes);
      } finally {
        seed.fill(0);
      }
    });
  }

  async function generateAround(
    dataKey: WrappedDataKey,
    { label, publicKeys }: Resident,
    about: Pick<KeyIdentity, "tenant" | "purpose">,
  ): Promise<KeptKey> {
    const { ed25519, ml_dsa_65 } = publicKeys;
    if (ed25519 === undefined) throw new VaultError("internal", "The token made no Ed25519 half");
    const made = await ML_DSA.generate();
    try {
      const publicKey = {
        ed25519: encodeBase64(ed25519),
        ml_dsa_65: encodeBase64(ml_dsa_65 ?? made.publicKey),
      };
      const version = ml_dsa_65 === undefined ? HALF_VERSION : RESIDENT_VERSION;
      const identity = { ...about, keyId: keyId(publicKey), publicKey, version };
      const wrappedSeeds =
        version === RESIDENT_VERSION
          ? Buffer.alloc(0)
          : await dataKeys.use(dataKey, (opened) => wrapHalf(opened, identity, made.seed));
      return { ...identity, wrappedSeeds, dataKey, resident: label };
    } finally {
      made.seed.fill(0);
    }
  }

  return {
    async generate(dataKey, tenant, purpose, resident) {
      if (resident !== undefined) return generateAround(dataKey, resident, { tenant, purpose });
      const { seeds, publicKey } = await generateKeys();
      try {
        const identity = { keyId: keyId(publicKey), tenant, purpose, publicKey, version: SEEDS_VERSION };
        const wrappedSeeds = await dataKeys.use(dataKey, (opened) => wrapSeeds(opened, identity, seeds));
        return { ...identity, wrappedSeeds, dataKey, resident: null };
      } finally {
        eraseSeeds(seeds);
      }
    },
    sign,
    holds: async (key) => verifyHybrid(key.publicKey, PROBE, await sign(key, PROBE)),
  };
}

/** Gives what `use` gives and overwrites the seeds, which it must be done with when it returns. */
function consume<T>(seeds: HybridSeeds, use: (seeds: HybridSeeds) => T): T {
  try {
    return use(seeds);
  } finally {
    eraseSeeds(seeds);
  }
}

function damaged(error: unknown): never {
  throw error instanceof DamagedBox ? new VaultError("key_damaged", undefined, { cause: error }) : error;
}
