import * as nativeKeys from "./native.ts";
import * as referenceKeys from "./reference.ts";

/** A private key that signs; its secret never leaves it. */
export type SigningKey = {
  readonly publicKey: Uint8Array;
  sign(bytes: Uint8Array): Promise<Uint8Array>;
};

/**
 * A public key that was found well-formed and answers whether a signature over `bytes` is its own. Never
 * throws for hostile input.
 */
export type VerifyingKey = {
  verify(bytes: Uint8Array, signature: Uint8Array): Promise<boolean>;
};

/**
 * One way to compute an algorithm. Both implementations of one algorithm give the same answer to every input.
 */
export type Implementation = {
  /**
   * Makes the private key of a 32-byte seed. The runtime's own keeps the seed until its garbage is collected.
   */
  signingKey(seed: Uint8Array): SigningKey;
  /**
   * Signs by a 32-byte seed, which may be overwritten as soon as this has returned. The runtime's own leaves
   * nothing of it in memory once the promise has settled.
   */
  signOnce(seed: Uint8Array, bytes: Uint8Array): Promise<Uint8Array>;
  /**
   * A fresh seed, its caller's to overwrite, and its public key. The runtime's own leaves no other copy in
   * memory.
   */
  generate(): Promise<{ seed: Uint8Array; publicKey: Uint8Array }>;
  /** `undefined` when strict verification does not accept these bytes of the right length as a key. */
  verifyingKey(publicKey: Uint8Array): VerifyingKey | undefined;
};

/** All that is particular to one signature algorithm (wire format §1, §2). Lengths in bytes. */
export type Algorithm = {
  readonly title: string;
  readonly seedBytes: number;
  readonly publicKeyBytes: number;
  readonly signatureBytes: number;
  /** Of the runtime's own library; `undefined` where that lacks the algorithm. */
  readonly native: Implementation | undefined;
  /** In JavaScript, slower, independent of the first. */
  readonly reference: Implementation;
};

/**
 * The two halves of every hybrid key and signature. Ed25519 is strict: canonical encodings only, neither A
 * nor R of small order, s below the group order, equation without cofactor. ML-DSA-65 is FIPS 204, pure mode,
 * empty context.
 */
export const ALGORITHMS = {
  ed25519: {
    title: "Ed25519",
    seedBytes: 32,
    publicKeyBytes: 32,
    signatureBytes: 64,
    native: nativeKeys.ed25519,
    reference: referenceKeys.ed25519,
  },
  ml_dsa_65: {
    title: "ML-DSA-65",
    seedBytes: 32,
    publicKeyBytes: 1952,
    signatureBytes: 3309,
    native: nativeKeys.mlDsa65,
    reference: referenceKeys.mlDsa65,
  },
} as const satisfies Record<string, Algorithm>;

/** Name of one half on the wire. */
export type AlgorithmName = keyof typeof ALGORITHMS;
