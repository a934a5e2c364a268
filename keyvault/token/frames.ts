import { deserialize, serialize } from "node:v8";

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
