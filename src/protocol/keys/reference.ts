import { randomBytes } from "node:crypto";
import { ed25519 as curve } from "@noble/curves/ed25519.js";
import { sha512 } from "@noble/hashes/sha2.js";
import { ml_dsa65 } from "@noble/post-quantum/ml-dsa.js";
import { isStrictPoint } from "./ed25519_points.ts";
import type { Implementation } from "./implementation.ts";

/** Strict Ed25519 in JavaScript: RFC 8032 without cofactor, comparing the encoding of s·B − k·A with R. */
export const ed25519: Implementation = {
  signOnce: async (seed, bytes) => ed25519.signingKey(seed).sign(bytes),
  generate: async () => generate(ed25519),
  signingKey: (seed) => {
    const secret = Uint8Array.from(seed);
    return {
      publicKey: curve.getPublicKey(secret),
      sign: async (bytes) => curve.sign(bytes, secret),
    };
  },
  verifyingKey: (publicKey) => {
    const point = decodePoint(publicKey);
    if (point === undefined || !isStrictPoint(publicKey)) return undefined;
    const encoded = Uint8Array.from(publicKey);
    return { verify: async (bytes, signature) => verifyEd25519(point, encoded, bytes, signature) };
  },
};

/** ML-DSA-65 in JavaScript (FIPS 204, pure mode, empty context). */
export const mlDsa65: Implementation = {
  signOnce: async (seed, bytes) => mlDsa65.signingKey(seed).sign(bytes),
  generate: async () => generate(mlDsa65),
  signingKey: (seed) => {
    const { publicKey, secretKey } = ml_dsa65.keygen(Uint8Array.from(seed));
    return { publicKey, sign: async (bytes) => ml_dsa65.sign(bytes, secretKey) };
  },
  verifyingKey: (publicKey) => {
    const encoded = Uint8Array.from(publicKey);
    return {
      verify: async (bytes, signature) =>
        signature.length === ml_dsa65.lengths.signature && ml_dsa65.verify(signature, bytes, encoded),
    };
  },
};

function generate({ signingKey }: Implementation): { seed: Uint8Array; publicKey: Uint8Array } {
  const seed = randomBytes(32);
  return { seed, publicKey: signingKey(seed).publicKey };
}

type CurvePoint = ReturnType<typeof curve.Point.fromBytes>;

function decodePoint(encoded: Uint8Array): CurvePoint | undefined {
  try {
    return curve.Point.fromBytes(encoded, false);
  } catch {
    return undefined;
  }
}

function verifyEd25519(
  key: CurvePoint,
  encodedKey: Uint8Array,
  bytes: Uint8Array,
  signature: Uint8Array,
): boolean {
  if (signature.length !== 64) return false;
  const commitment = signature.subarray(0, 32);
  if (!isStrictPoint(commitment)) return false;
  const response = readLittleEndian(signature.subarray(32));
  const order = curve.Point.Fn.ORDER;
  if (response >= order) return false;
  const challenge = readLittleEndian(sha512(Buffer.concat([commitment, encodedKey, bytes]))) % order;
  const expected = curve.Point.BASE.multiplyUnsafe(response).subtract(key.multiplyUnsafe(challenge));
  return Buffer.compare(expected.toBytes(), commitment) === 0;
}

function readLittleEndian(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes).reverse().toString("hex")}`);
}
