/** A private key that can sign. It never reveals its secret. */
export type SigningKey = {
  readonly publicKey: Uint8Array;
  sign(bytes: Uint8Array): Promise<Uint8Array>;
};

/**
 * A well-formed public key that checks whether a signature over `bytes` is its own. Never throws for hostile
 * input.
 */
export type VerifyingKey = {
  verify(bytes: Uint8Array, signature: Uint8Array): Promise<boolean>;
};

/**
 * An implementation of one algorithm. Both implementations of an algorithm give the same answer to every
 * input.
 */
export type Implementation = {
  /**
   * Returns the private key of a 32-byte seed. In the native implementation, the key contains the seed until
   * it is garbage-collected.
   */
  signingKey(seed: Uint8Array): SigningKey;
  /**
   * Signs with a 32-byte seed. The caller may overwrite the seed as soon as this function returns. In the
   * native implementation, no copy of it remains in memory after the promise settles.
   */
  signOnce(seed: Uint8Array, bytes: Uint8Array): Promise<Uint8Array>;
  /**
   * Returns a new seed and its public key. The caller should overwrite the seed after use. The native
   * implementation keeps no other copy of it in memory.
   */
  generate(): Promise<{ seed: Uint8Array; publicKey: Uint8Array }>;
  /**
   * Returns `undefined` if strict verification does not accept these bytes as a key. The bytes must have the
   * right length.
   */
  verifyingKey(publicKey: Uint8Array): VerifyingKey | undefined;
};
