import type { Implementation } from "./implementation.ts";
import * as nativeKeys from "./native.ts";
import * as referenceKeys from "./reference.ts";

/** The properties of one signature algorithm (wire format §1, §2). Lengths are in bytes. */
export type Algorithm = {
  readonly title: string;
  readonly seedBytes: number;
  readonly publicKeyBytes: number;
  readonly signatureBytes: number;
  /** The implementation in the runtime's crypto library. `undefined` if the runtime lacks the algorithm. */
  readonly native: Implementation | undefined;
  /** The implementation in JavaScript, which is slower and independent of the native one. */
  readonly reference: Implementation;
};

/**
 * The algorithms of the two halves of every hybrid key and signature. Ed25519 is strict. It accepts only
 * canonical encodings, no A or R of small order, and only s below the group order. It uses the equation
 * without cofactor. ML-DSA-65 is FIPS 204 in pure mode with an empty context.
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

/** Algorithm name, which is also the member name of its half in keys and signatures. */
export type AlgorithmName = keyof typeof ALGORITHMS;
