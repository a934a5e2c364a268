import { randomFillSync } from "node:crypto";
import { deserialize, serialize } from "node:v8";
import { TokenError, type Wrapped } from "./messages.ts";

const HEADER_BYTES = 4;

/** Largest frame that either side accepts, in bytes: far more than the vault's own messages have. */
export const MAX_FRAME_BYTES = 5_242_880;

/** One message as it goes over the pipe: u32be length ‖ structured clone of `message`. */
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
 * Collects the pipe's chunks and gives whole messages, in order. A message's byte arrays are views of the
 * only copy that is kept, so that who overwrites them leaves nothing behind; the chunks are the caller's to
 * overwrite.
 *
 * Throws when the other side announces a frame that is too large.
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

/**
 * Bytes of text that one message to the child carries: well within a frame, and short of what would keep
 * other calls waiting.
 */
const CHUNK_BYTES = 262_144;

/**
 * The texts in their order, in chunks of one message each. A text longer than a chunk is a chunk of its own.
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
