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
