import { decodeProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import { type VerifyOptions, verifyBundle } from "../../src/protocol/verification/verify_bundle.ts";

/** Changes one bit of a copy. A position beyond the document's end wraps around. */
export function flipBit(document: Uint8Array, bit: number): Uint8Array {
  const changed = Uint8Array.from(document);
  const at = (bit >> 3) % changed.length;
  changed[at] = (changed[at] ?? 0) ^ (1 << (bit & 7));
  return changed;
}

/**
 * Returns why the decoder or the verification rejects a document, or `undefined`. Rethrows any other error.
 */
export async function refusal(document: Uint8Array, options: VerifyOptions): Promise<string | undefined> {
  try {
    return (await verifyBundle(decodeProofBundle(document), options)).error_reason;
  } catch (error) {
    if (error instanceof ProtocolError) return error.message;
    throw error;
  }
}
