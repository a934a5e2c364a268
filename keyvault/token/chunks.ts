/**
 * Bytes of text that one message to the child carries: well within a frame, and short of what would keep
 * other calls waiting.
 */
const PART_BYTES = 262_144;

/**
 * The texts in their order, in parts for one message each. A text longer than a part is a part of its own.
 */
export function partsOf(texts: readonly Uint8Array[]): Uint8Array[][] {
  const parts: Uint8Array[][] = [];
  let left = 0;
  for (const text of texts) {
    left -= text.length;
    const current = parts.at(-1);
    if (current !== undefined && left >= 0) {
      current.push(text);
    } else {
      parts.push([text]);
      left = PART_BYTES - text.length;
    }
  }
  return parts;
}
