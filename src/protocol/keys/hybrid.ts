import { hash, randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import { decodeBase64, encodeBase64 } from "../encoding/base64.ts";
import { canonicalBytes } from "../encoding/canonical.ts";
import { ProtocolError } from "../encoding/errors.ts";
import { base64, type Decoder, type KeepingDecoder, keeping, object } from "../encoding/fields.ts";
import { ALGORITHMS, type AlgorithmName } from "./algorithms.ts";
import type { Implementation, SigningKey, VerifyingKey } from "./implementation.ts";

/** A public key on the wire: two halves of 32 and 1952 bytes in canonical base64 (wire format §2). */
export type HybridPublicKey = {
  ed25519: string;
  ml_dsa_65: string;
};

/** A signature on the wire: two halves of 64 and 3309 bytes in canonical base64 (wire format §2). */
export type HybridSignature = {
  ed25519: string;
  ml_dsa_65: string;
};

/** The two independent 32-byte secrets from which a hybrid key is derived (wire format §2). */
export type HybridSeeds = {
  ed25519: Uint8Array;
  ml_dsa_65: Uint8Array;
};

/** Both private halves, ready to sign. The secrets cannot be read back. */
export type HybridPrivateKey = {
  readonly ed25519: SigningKey;
  readonly ml_dsa_65: SigningKey;
};

/** The implementation that signs or verifies. `reference` exists for comparison. */
export type Backend = "native" | "reference";

const HALVES = ["ed25519", "ml_dsa_65"] as const;
const REMEMBERED_KEYS = 2048;
const rememberedKeys = {
  ed25519: new LRUCache<string, VerifyingKey>({ max: REMEMBERED_KEYS }),
  ml_dsa_65: new LRUCache<string, VerifyingKey>({ max: REMEMBERED_KEYS }),
};

/** Cache of key ids by ML-DSA-65 half. Stores copies, because a parsed string retains its document. */
const rememberedIds = new LRUCache<string, { ed25519: string; id: string }>({ max: REMEMBERED_KEYS });

/** Returns new seeds from the operating system's random source. */
export function generateSeeds(): HybridSeeds {
  return {
    ed25519: randomBytes(ALGORITHMS.ed25519.seedBytes),
    ml_dsa_65: randomBytes(ALGORITHMS.ml_dsa_65.seedBytes),
  };
}

/**
 * Returns new seeds and their public key. The caller should overwrite the seeds after use. The runtime keeps
 * no other copy of them in memory.
 */
export async function generateKeys(): Promise<{ seeds: HybridSeeds; publicKey: HybridPublicKey }> {
  const [ed25519, ml_dsa_65] = await Promise.all([
    implementationOf("ed25519", "native").generate(),
    implementationOf("ml_dsa_65", "native").generate(),
  ]);
  return {
    seeds: { ed25519: ed25519.seed, ml_dsa_65: ml_dsa_65.seed },
    publicKey: {
      ed25519: encodeBase64(ed25519.publicKey),
      ml_dsa_65: encodeBase64(ml_dsa_65.publicKey),
    },
  };
}

/**
 * Returns the private key that two seeds define. The caller may overwrite the seeds afterwards. With the
 * native backend, no copy of the seeds remains in JavaScript memory, but the key itself contains a copy until
 * it is garbage-collected. Throws `ProtocolError` `wrong_length` if a seed is not 32 bytes long.
 */
export function importSeeds(seeds: HybridSeeds, backend: Backend = "native"): HybridPrivateKey {
  requireLengths(seeds);
  return {
    ed25519: implementationOf("ed25519", backend).signingKey(seeds.ed25519),
    ml_dsa_65: implementationOf("ml_dsa_65", backend).signingKey(seeds.ml_dsa_65),
  };
}

/** Returns the public key that belongs to a private key. */
export function publicKeyOf(privateKey: HybridPrivateKey): HybridPublicKey {
  return {
    ed25519: encodeBase64(privateKey.ed25519.publicKey),
    ml_dsa_65: encodeBase64(privateKey.ml_dsa_65.publicKey),
  };
}

/**
 * Returns the id of a key: the first 16 bytes of SHA-256 over both public halves, as 32 lowercase hex digits
 * (wire format §2). Throws `ProtocolError` `invalid_base64` or `wrong_length` for a malformed key.
 */
export function keyId(publicKey: HybridPublicKey): string {
  const remembered = rememberedIds.get(publicKey.ml_dsa_65);
  if (remembered?.ed25519 === publicKey.ed25519) return remembered.id;
  const [classical, postQuantum] = HALVES.map((half) =>
    decodeBase64(publicKey[half], ALGORITHMS[half].publicKeyBytes),
  ) as [Uint8Array, Uint8Array];
  const id = hash("sha256", Buffer.concat([classical, postQuantum]), "hex").slice(0, 32);
  rememberedIds.set(encodeBase64(postQuantum), { ed25519: encodeBase64(classical), id });
  return id;
}

/** Returns whether `id` is the id of `publicKey` (wire format §2). Returns false for a malformed key. */
export function isIdOf(id: string, publicKey: HybridPublicKey): boolean {
  try {
    return keyId(publicKey) === id;
  } catch (error) {
    if (error instanceof ProtocolError) return false;
    throw error;
  }
}

/** Returns whether two public keys are equal. Compares the base64 strings, which are canonical. */
export function equalPublicKeys(left: HybridPublicKey, right: HybridPublicKey): boolean {
  return left.ed25519 === right.ed25519 && left.ml_dsa_65 === right.ml_dsa_65;
}

/** Signs `bytes` with both halves, on the thread pool. */
export async function signHybrid(privateKey: HybridPrivateKey, bytes: Uint8Array): Promise<HybridSignature> {
  const [classical, postQuantum] = await Promise.all([
    privateKey.ed25519.sign(bytes),
    privateKey.ml_dsa_65.sign(bytes),
  ]);
  return { ed25519: encodeBase64(classical), ml_dsa_65: encodeBase64(postQuantum) };
}

/**
 * Signs `bytes` with the private key that two seeds define. The caller may overwrite the seeds as soon as
 * this function returns, before the promise settles. After the promise settles, the runtime keeps no copy of
 * the seeds in memory. Rejects with `ProtocolError` `wrong_length` if a seed is not 32 bytes long.
 */
export async function signHybridOnce(seeds: HybridSeeds, bytes: Uint8Array): Promise<HybridSignature> {
  requireLengths(seeds);
  const [classical, postQuantum] = await Promise.all([
    implementationOf("ed25519", "native").signOnce(seeds.ed25519, bytes),
    implementationOf("ml_dsa_65", "native").signOnce(seeds.ml_dsa_65, bytes),
  ]);
  return { ed25519: encodeBase64(classical), ml_dsa_65: encodeBase64(postQuantum) };
}

/**
 * Returns whether **both** halves of `signature` are valid signatures of `publicKey` over `bytes` (wire
 * format §2). Rejects with `ProtocolError` `invalid_base64` or `wrong_length` for a malformed key or
 * signature. Also rejects if the crypto library fails.
 */
export async function verifyHybrid(
  publicKey: HybridPublicKey,
  bytes: Uint8Array,
  signature: HybridSignature,
  backend: Backend = "native",
): Promise<boolean> {
  return (await failedHalf(publicKey, bytes, signature, backend)) === undefined;
}

/**
 * Returns which half of a signature is invalid, or `undefined` if both are valid. If both are invalid,
 * returns `ed25519`. Rejects like {@link verifyHybrid}.
 */
export async function failedHalf(
  publicKey: HybridPublicKey,
  bytes: Uint8Array,
  signature: HybridSignature,
  backend: Backend = "native",
): Promise<AlgorithmName | undefined> {
  const verified = await Promise.all(
    HALVES.map((half) => verifyHalf(half, publicKey[half], bytes, signature[half], backend)),
  );
  return HALVES.find((_, index) => verified[index] !== true);
}

/** Returns why a signature is invalid, or `undefined` if it is valid. Rejects like {@link verifyHybrid}. */
export async function signatureViolation(
  publicKey: HybridPublicKey,
  bytes: Uint8Array,
  signature: HybridSignature,
  backend: Backend = "native",
): Promise<string | undefined> {
  const half = await failedHalf(publicKey, bytes, signature, backend);
  return half === undefined ? undefined : `${ALGORITHMS[half].title} signature invalid`;
}

function requireLengths(seeds: HybridSeeds): void {
  for (const half of HALVES) {
    if (seeds[half].length !== ALGORITHMS[half].seedBytes) {
      throw new ProtocolError("wrong_length", `${half} seed is not ${ALGORITHMS[half].seedBytes} bytes`);
    }
  }
}

async function verifyHalf(
  half: AlgorithmName,
  publicKey: string,
  bytes: Uint8Array,
  signature: string,
  backend: Backend,
): Promise<boolean> {
  const decoded = decodeBase64(signature, ALGORITHMS[half].signatureBytes);
  const key = verifyingKey(half, publicKey, backend);
  return key === undefined ? false : key.verify(bytes, decoded);
}

function verifyingKey(half: AlgorithmName, publicKey: string, backend: Backend): VerifyingKey | undefined {
  const remembered = backend === "native" ? rememberedKeys[half].get(publicKey) : undefined;
  if (remembered !== undefined) return remembered;
  const decoded = decodeBase64(publicKey, ALGORITHMS[half].publicKeyBytes);
  const key = implementationOf(half, backend).verifyingKey(decoded);
  if (key !== undefined && backend === "native") rememberedKeys[half].set(encodeBase64(decoded), key);
  return key;
}

function implementationOf(half: AlgorithmName, backend: Backend): Implementation {
  const algorithm = ALGORITHMS[half];
  return backend === "native" ? (algorithm.native ?? algorithm.reference) : algorithm.reference;
}

/** Decodes a hybrid public key (wire format §2). */
export const publicKey: KeepingDecoder<HybridPublicKey> = keeping(
  object({
    ed25519: base64(ALGORITHMS.ed25519.publicKeyBytes),
    ml_dsa_65: base64(ALGORITHMS.ml_dsa_65.publicKeyBytes),
  }),
);

/** Decodes a hybrid signature (wire format §2). */
export const signature: Decoder<HybridSignature> = object({
  ed25519: base64(ALGORITHMS.ed25519.signatureBytes),
  ml_dsa_65: base64(ALGORITHMS.ml_dsa_65.signatureBytes),
});

/** Returns the fingerprint of a key, for people to compare: `sha256:` and the hash of its canonical JSON. */
export function fingerprintOfKey(publicKey: unknown): string {
  return `sha256:${hash("sha256", canonicalBytes(publicKey), "hex")}`;
}
