import { ProtocolError } from "./errors.ts";

/** Standard base64 with padding of `bytes` (wire format §2). */
export function encodeBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}

/**
 * Bytes of a canonical base64 text: standard alphabet, padded, unused bits zero, no white space (wire format §2).
 *
 * @param length bytes the result must have; any when left out
 * @throws ProtocolError `invalid_base64`, or `wrong_length` when the text is canonical but of another length
 */
export function decodeBase64(text: string, length?: number): Uint8Array {
  const bytes = Buffer.from(text, "base64");
  if (bytes.toString("base64") !== text) throw new ProtocolError("invalid_base64", "not canonical base64");
  if (length !== undefined && bytes.length !== length) {
    throw new ProtocolError("wrong_length", `${bytes.length} bytes instead of ${length}`);
  }
  return bytes;
}
