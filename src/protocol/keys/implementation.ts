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
