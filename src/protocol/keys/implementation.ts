/** A private key that can sign. Its secret cannot be read. */
export type SigningKey = {
  readonly publicKey: Uint8Array;
  sign(bytes: Uint8Array): Promise<Uint8Array>;
};

/** A well-formed public key. `verify` never throws for hostile input. */
export type VerifyingKey = {
  verify(bytes: Uint8Array, signature: Uint8Array): Promise<boolean>;
};

/** Implements one algorithm. All implementations of an algorithm give the same result for every input. */
export type Implementation = {
  /**
   * Returns the private key that a 32-byte seed defines. In the native implementation, the key contains the
   * seed until it is garbage-collected.
   */
  signingKey(seed: Uint8Array): SigningKey;
  /**
   * Signs with a 32-byte seed. The caller may overwrite the seed as soon as this function returns. In the
   * native implementation, no copy of the seed remains in memory after the promise settles.
   */
  signOnce(seed: Uint8Array, bytes: Uint8Array): Promise<Uint8Array>;
  /**
   * Returns a new seed and its public key. The caller should overwrite the seed after use. The native
   * implementation keeps no other copy of it in memory.
   */
  generate(): Promise<{ seed: Uint8Array; publicKey: Uint8Array }>;
  /**
   * Returns the public key that these bytes encode, or `undefined` if strict verification does not accept
   * them as a key. The caller must pass bytes of the right length.
   */
  verifyingKey(publicKey: Uint8Array): VerifyingKey | undefined;
};
