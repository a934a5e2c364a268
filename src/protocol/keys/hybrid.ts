import { hash, randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import { decodeBase64, encodeBase64 } from "../encoding/base64.ts";
import { canonicalBytes } from "../encoding/canonical.ts";
import { ProtocolError } from "../encoding/errors.ts";
import { base64, type Decoder, type KeepingDecoder, keeping, object } from "../encoding/fields.ts";
import { ALGORITHMS, type AlgorithmName } from "./algorithms.ts";
import type { Implementation, SigningKey, VerifyingKey } from "./implementation.ts";

/** Public key in wire form: canonical base64 of 32 and of 1952 bytes (wire format §2). */
export type HybridPublicKey = {
  ed25519: string;
  ml_dsa_65: string;
};

/** Signature in wire form: canonical base64 of 64 and of 3309 bytes (wire format §2). */
export type HybridSignature = {
  ed25519: string;
  ml_dsa_65: string;
};

/** The two independent 32-byte secrets that a hybrid key is made from (wire format §2). */
export type HybridSeeds = {
  ed25519: Uint8Array;
  ml_dsa_65: Uint8Array;
};

/** Both private halves, ready to sign; neither can be read back out of it. */
export type HybridPrivateKey = {
  readonly ed25519: SigningKey;
  readonly ml_dsa_65: SigningKey;
};

/** What a hybrid check can be given instead of the native implementations, for comparison. */
export type Backend = "native" | "reference";

const HALVES = ["ed25519", "ml_dsa_65"] as const;
const REMEMBERED_KEYS = 2048;
const rememberedKeys = {
  ed25519: new LRUCache<string, VerifyingKey>({ max: REMEMBERED_KEYS }),
  ml_dsa_65: new LRUCache<string, VerifyingKey>({ max: REMEMBERED_KEYS }),
};

/**
 * By the text of the longer half. Texts are copied, because a text that was read keeps its whole document in
 * memory.
 */
const rememberedIds = new LRUCache<string, { ed25519: string; id: string }>({ max: REMEMBERED_KEYS });

/** Fresh seeds from the operating system's random source. */
export function generateSeeds(): HybridSeeds {
  return {
    ed25519: randomBytes(ALGORITHMS.ed25519.seedBytes),
    ml_dsa_65: randomBytes(ALGORITHMS.ml_dsa_65.seedBytes),
  };
}

/**
 * Fresh seeds, their caller's to overwrite, and their public key in wire form. The runtime leaves no other
 * copy of them in memory.
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
 * The private key of two seeds. No copy of them stays in JavaScript memory with the native backend, where the
 * key itself keeps one until it is collected as garbage; the caller may overwrite them.
 *
 * Throws `ProtocolError` `wrong_length` when a seed is not 32 bytes
 */
export function importSeeds(seeds: HybridSeeds, backend: Backend = "native"): HybridPrivateKey {
  requireLengths(seeds);
  return {
    ed25519: implementationOf("ed25519", backend).signingKey(seeds.ed25519),
    ml_dsa_65: implementationOf("ml_dsa_65", backend).signingKey(seeds.ml_dsa_65),
  };
}

/** The public key that belongs to a private one, in wire form. */
export function publicKeyOf(privateKey: HybridPrivateKey): HybridPublicKey {
  return {
    ed25519: encodeBase64(privateKey.ed25519.publicKey),
    ml_dsa_65: encodeBase64(privateKey.ml_dsa_65.publicKey),
  };
}

/**
 * Identifier of a key: the first 16 bytes of SHA-256 over both public halves, as 32 lowercase hex digits
 * (wire format §2).
 *
 * Throws `ProtocolError` `invalid_base64` or `wrong_length` when a half is not a public key's text
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

/** Whether `id` is the identifier of a key (wire format §2). False when the key is malformed. */
export function isIdOf(id: string, publicKey: HybridPublicKey): boolean {
  try {
    return keyId(publicKey) === id;
  } catch (error) {
    if (error instanceof ProtocolError) return false;
    throw error;
  }
}

/** Whether two public keys are the same bytes; their texts are canonical, so comparing those is enough. */
export function equalPublicKeys(left: HybridPublicKey, right: HybridPublicKey): boolean {
  return left.ed25519 === right.ed25519 && left.ml_dsa_65 === right.ml_dsa_65;
}

/** Signs the same bytes with both halves concurrently, on the thread pool. */
export async function signHybrid(privateKey: HybridPrivateKey, bytes: Uint8Array): Promise<HybridSignature> {
  const [classical, postQuantum] = await Promise.all([
    privateKey.ed25519.sign(bytes),
    privateKey.ml_dsa_65.sign(bytes),
  ]);
  return { ed25519: encodeBase64(classical), ml_dsa_65: encodeBase64(postQuantum) };
}

/**
 * Signs the same bytes once with both halves of two seeds, which may be overwritten as soon as this has
 * returned; the runtime leaves nothing of them in memory once the promise has settled. Rejects with
 * `ProtocolError` `wrong_length` when a seed is not 32 bytes.
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
 * Whether **both** halves of `signature` are `publicKey`'s over `bytes` (wire format §2).
 *
 * Throws `ProtocolError` `invalid_base64` or `wrong_length` when a text is not a key's or not a signature's;
 * rejects when the crypto library breaks
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
 * As {@link verifyHybrid}, telling which half failed first: `ed25519`, then `ml_dsa_65`; `undefined` when
 * both hold.
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

/**
 * What is wrong with a signature, for people; `undefined` when both halves hold. Throws as {@link
 * verifyHybrid}.
 */
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

/** A hybrid public key (wire format §2). */
export const publicKey: KeepingDecoder<HybridPublicKey> = keeping(
  object({
    ed25519: base64(ALGORITHMS.ed25519.publicKeyBytes),
    ml_dsa_65: base64(ALGORITHMS.ml_dsa_65.publicKeyBytes),
  }),
);

/** A hybrid signature (wire format §2). */
export const signature: Decoder<HybridSignature> = object({
  ed25519: base64(ALGORITHMS.ed25519.signatureBytes),
  ml_dsa_65: base64(ALGORITHMS.ml_dsa_65.signatureBytes),
});

/** What people compare of a public key: `sha256:` and the hash of its canonical JSON. */
export function fingerprintOfKey(publicKey: unknown): string {
  return `sha256:${hash("sha256", canonicalBytes(publicKey), "hex")}`;
}
