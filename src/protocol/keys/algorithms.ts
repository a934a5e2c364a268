import type { Implementation } from "./implementation.ts";
import * as nativeKeys from "./native.ts";
import * as referenceKeys from "./reference.ts";

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
