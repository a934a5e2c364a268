import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import type { Implementation, SigningKey, VerifyingKey } from "./algorithms.ts";
import { isStrictPoint } from "./ed25519_points.ts";

type NativeName = "ed25519" | "ml-dsa-65";

/** Ed25519 by the runtime's OpenSSL, on its thread pool, with strict rules about points that do not hang on its version. */
export const ed25519: Implementation = {
  signingKey: (seed) =>
    signingKey(createPrivateKey({ key: viewOf(seed), format: "raw-private", asymmetricKeyType: "ed25519" })),
  verifyingKey: (publicKey) => {
    const key = isStrictPoint(publicKey) ? verifyingKey(publicKey, "ed25519") : undefined;
    return (
      key && {
        verify: async (bytes, signature) =>
          isStrictPoint(signature.subarray(0, 32)) && key.verify(bytes, signature),
      }
    );
  },
};

/** ML-DSA-65 by the runtime's OpenSSL, on its thread pool; `undefined` where that is older than 3.5. */
export const mlDsa65: Implementation | undefined = supportsMlDsa()
  ? {
      signingKey: (seed) =>
        signingKey(
          createPrivateKey({ key: viewOf(seed), format: "raw-seed", asymmetricKeyType: "ml-dsa-65" }),
        ),
      verifyingKey: (publicKey) => verifyingKey(publicKey, "ml-dsa-65"),
    }
  : undefined;

function supportsMlDsa(): boolean {
  try {
    createPrivateKey({ key: Buffer.alloc(32), format: "raw-seed", asymmetricKeyType: "ml-dsa-65" });
    return true;
  } catch {
    return false;
  }
}

function signingKey(key: KeyObject): SigningKey {
  return {
    get publicKey() {
      return createPublicKey(key).export({ format: "raw-public" });
    },
    sign: (bytes) =>
      new Promise((resolve, reject) =>
        sign(null, bytes, key, (error, signature) => (error ? reject(error) : resolve(signature))),
      ),
  };
}

function verifyingKey(publicKey: Uint8Array, name: NativeName): VerifyingKey | undefined {
  const key = importPublicKey(publicKey, name);
  if (key === undefined) return undefined;
  return {
    verify: (bytes, signature) =>
      new Promise((resolve, reject) =>
        verify(null, bytes, key, signature, (error, verified) => (error ? reject(error) : resolve(verified))),
      ),
  };
}

function importPublicKey(publicKey: Uint8Array, name: NativeName): KeyObject | undefined {
  try {
    return createPublicKey({ key: viewOf(publicKey), format: "raw-public", asymmetricKeyType: name });
  } catch {
    return undefined;
  }
}

function viewOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
