import { randomFillSync } from "node:crypto";
import type { Wrapped } from "./messages.ts";
import { TokenError } from "./token_error.ts";

const NONCE_AND_TAG_BYTES = 28;

/** Random bytes, as many as are wrapped; for one use. */
export function createMask({ box }: Wrapped): Buffer {
  const length = Math.max(0, box.length - NONCE_AND_TAG_BYTES);
  return randomFillSync(Buffer.from(new ArrayBuffer(length)));
}

/**
 * XORs the mask onto the bytes, in their place, and gives them: put on and taken off alike. Throws a
 * `TokenError` when it is too short.
 */
export function applyMask(bytes: Uint8Array, mask: Uint8Array): Uint8Array {
  if (mask.length < bytes.length) throw new TokenError("The mask is shorter than the bytes that it masks");
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = (bytes[at] ?? 0) ^ (mask[at] ?? 0);
  return bytes;
}
