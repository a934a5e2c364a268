import { ed25519 } from "@noble/curves/ed25519.js";
import { ml_dsa65 } from "@noble/post-quantum/ml-dsa.js";
import { type HybridPublicKey, type HybridSignature, keyId } from "../../src/protocol/keys/hybrid.ts";

/**
 * A key of the vectors with its public seeds. The key signs deterministically, so that the vectors can be
 * generated again.
 */
export type Actor = {
  role: string;
  seeds: { ed25519: Uint8Array; ml_dsa_65: Uint8Array };
  publicKey: HybridPublicKey;
  id: string;
  sign(bytes: Uint8Array): HybridSignature;
};

/**
 * Returns the actor for a number from 1 to 255. The actor's Ed25519 seed repeats that byte. Its ML-DSA-65
 * seed repeats the byte's complement.
 */
export function actor(role: string, number: number): Actor {
  const seeds = { ed25519: Buffer.alloc(32, number), ml_dsa_65: Buffer.alloc(32, 255 - number) };
  const mlDsa = ml_dsa65.keygen(seeds.ml_dsa_65);
  const publicKey = { ed25519: text(ed25519.getPublicKey(seeds.ed25519)), ml_dsa_65: text(mlDsa.publicKey) };
  return {
    role,
    seeds,
    publicKey,
    id: keyId(publicKey),
    sign: (bytes) => ({
      ed25519: text(ed25519.sign(bytes, seeds.ed25519)),
      ml_dsa_65: text(ml_dsa65.sign(bytes, mlDsa.secretKey, { extraEntropy: false })),
    }),
  };
}

/** Returns an actor in the format that vectors use. */
export function entity({ role, seeds, publicKey, id }: Actor): object {
  return {
    role,
    ed25519_seed_hex: Buffer.from(seeds.ed25519).toString("hex"),
    ml_dsa_65_seed_hex: Buffer.from(seeds.ml_dsa_65).toString("hex"),
    public_key: publicKey,
    id,
  };
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}
