import {
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  type KeyObject,
  sign,
  verify,
} from "node:crypto";
import { promisify } from "node:util";
import { isStrictPoint } from "./ed25519_points.ts";
import type { Implementation, SigningKey, VerifyingKey } from "./implementation.ts";

type NativeName = "ed25519" | "ml-dsa-65";

const SEED_FORMATS = { ed25519: "raw-private", "ml-dsa-65": "raw-seed" } as const;
/** Node's types lack these formats and an overload that accepts both algorithm names. */
const generateKeys = promisify(generateKeyPair) as unknown as (
  name: NativeName,
  formats: { publicKeyEncoding: { format: string }; privateKeyEncoding: { format: string } },
) => Promise<{ publicKey: Buffer; privateKey: Buffer }>;

/** Ed25519 in the runtime's OpenSSL, on its thread pool. Equally strict with every OpenSSL version. */
export const ed25519: Implementation = {
  signingKey: (seed) => signingKey(seed, "ed25519"),
  signOnce: (seed, bytes) => signWith(privateKey(seed, "ed25519"), bytes),
  generate: () => generate("ed25519"),
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

/** ML-DSA-65 in the runtime's OpenSSL, on its thread pool. `undefined` if OpenSSL is older than 3.5. */
export const mlDsa65: Implementation | undefined = supportsMlDsa()
  ? {
      signingKey: (seed) => signingKey(seed, "ml-dsa-65"),
      signOnce: (seed, bytes) => signWith(privateKey(seed, "ml-dsa-65"), bytes),
      generate: () => generate("ml-dsa-65"),
      verifyingKey: (publicKey) => verifyingKey(publicKey, "ml-dsa-65"),
    }
  : undefined;

function supportsMlDsa(): boolean {
  try {
    createPrivateKey(privateKey(Buffer.alloc(32), "ml-dsa-65"));
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns a seed in the form that the runtime parses immediately. The runtime overwrites and frees its copy
 * together with the signature job of {@link signWith}.
 */
function privateKey(seed: Uint8Array, name: NativeName) {
  return { key: viewOf(seed), format: SEED_FORMATS[name], asymmetricKeyType: name };
}

/** Signs with a key or a seed. Rejects even if the runtime throws synchronously. */
async function signWith(key: KeyObject | ReturnType<typeof privateKey>, bytes: Uint8Array): Promise<Buffer> {
  return new Promise((resolve, reject) => sign(null, bytes, key as KeyObject, settling(resolve, reject)));
}

/**
 * Creates a callback in a scope without a key or a message, because the runtime keeps a callback and its
 * whole scope until a full garbage collection.
 */
function settling<T>(resolve: (value: T) => void, reject: (error: Error) => void) {
  return (error: Error | null, value: T): void => (error === null ? resolve(value) : reject(error));
}

async function generate(name: NativeName): Promise<{ seed: Uint8Array; publicKey: Uint8Array }> {
  const made = await generateKeys(name, {
    publicKeyEncoding: { format: "raw-public" },
    privateKeyEncoding: { format: SEED_FORMATS[name] },
  });
  return { seed: made.privateKey, publicKey: made.publicKey };
}

function signingKey(seed: Uint8Array, name: NativeName): SigningKey {
  const key = createPrivateKey(privateKey(seed, name));
  return {
    get publicKey() {
      return createPublicKey(key).export({ format: "raw-public" });
    },
    sign: (bytes) => signWith(key, bytes),
  };
}

function verifyingKey(publicKey: Uint8Array, name: NativeName): VerifyingKey | undefined {
  const key = importPublicKey(publicKey, name);
  if (key === undefined) return undefined;
  return {
    verify: (bytes, signature) =>
      new Promise((resolve, reject) => verify(null, bytes, key, signature, settling(resolve, reject))),
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
