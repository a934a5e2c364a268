import { randomFillSync } from "node:crypto";
import { deserialize, serialize } from "node:v8";
import { TokenError, type Wrapped } from "./messages.ts";

const HEADER_BYTES = 4;

/** Largest frame that either side accepts, in bytes. It is far larger than the vault's own messages. */
export const MAX_FRAME_BYTES = 5_242_880;

/** Encodes one message for the pipe: u32be length ‖ structured clone of `message`. */
export function encodeFrame(message: unknown): Buffer {
  const body = serialize(message);
  if (body.length > MAX_FRAME_BYTES) throw new Error(`A frame of ${body.length} bytes is too large`);
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt32BE(body.length);
  const frame = Buffer.concat([header, body]);
  body.fill(0);
  return frame;
}

/**
 * Collects the pipe's chunks and returns complete messages, in order. A message's byte arrays are views of
 * the only stored copy, so overwriting them leaves no other copy. The caller overwrites the chunks. Throws if
 * the other process announces a frame that is too large.
 */
export function createFrameReader(): { push(chunk: Uint8Array): unknown[] } {
  let rest: Buffer = Buffer.alloc(0);
  return {
    push(chunk) {
      const joined = Buffer.concat([rest, chunk]);
      rest.fill(0);
      rest = joined;
      const messages: unknown[] = [];
      while (rest.length >= HEADER_BYTES) {
        const length = rest.readUInt32BE();
        if (length > MAX_FRAME_BYTES) throw new Error(`A frame of ${length} bytes is too large`);
        if (rest.length < HEADER_BYTES + length) break;
        messages.push(deserialize(rest.subarray(HEADER_BYTES, HEADER_BYTES + length)));
        rest = rest.subarray(HEADER_BYTES + length);
      }
      return messages;
    },
  };
}

/** Maximum bytes of text in one message to the child. It is short enough not to delay other calls. */
const CHUNK_BYTES = 262_144;

/**
 * Splits the texts, in order, into chunks that fit in one message each. A longer text is a chunk of its own.
 */
export function chunksOf(texts: readonly Uint8Array[]): Uint8Array[][] {
  const chunks: Uint8Array[][] = [];
  let left = 0;
  for (const text of texts) {
    left -= text.length;
    const current = chunks.at(-1);
    if (current !== undefined && left >= 0) {
      current.push(text);
    } else {
      chunks.push([text]);
      left = CHUNK_BYTES - text.length;
    }
  }
  return chunks;
}

const NONCE_AND_TAG_BYTES = 28;

/** Returns a one-time mask of random bytes, as long as the plaintext of a wrapped text. */
export function createMask({ box }: Wrapped): Buffer {
  const length = Math.max(0, box.length - NONCE_AND_TAG_BYTES);
  return randomFillSync(Buffer.from(new ArrayBuffer(length)));
}

/** XORs the bytes with the mask in place and returns them. Throws a `TokenError` if the mask is too short. */
export function applyMask(bytes: Uint8Array, mask: Uint8Array): Uint8Array {
  if (mask.length < bytes.length) throw new TokenError("The mask is shorter than the bytes that it masks");
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = (bytes[at] ?? 0) ^ (mask[at] ?? 0);
  return bytes;
}
