import { ProtocolError } from "./errors.ts";

const SCRATCH_CHARACTERS = 6144;
const LAST_OF_ONE_BYTE = "AQgw";
const LAST_OF_TWO_BYTES = "AEIMQUYcgkosw048";
const scratch = Buffer.allocUnsafeSlow(SCRATCH_CHARACTERS);

/** Encodes `bytes` as standard base64 with padding (wire format §2). */
export function encodeBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}

/**
 * Decodes canonical base64: standard alphabet, padded, unused bits zero, no white space (wire format §2).
 * Throws `ProtocolError` `invalid_base64` if the string is not canonical, and `wrong_length` if it does not
 * encode `length` bytes. Without `length`, accepts any number of bytes.
 */
export function decodeBase64(text: string, length?: number): Uint8Array {
  const bytes = Buffer.from(text, "base64");
  check(text, bytes.length, length);
  return bytes;
}

/**
 * Checks a string as {@link decodeBase64} does, without returning the bytes. Must not be used for secrets,
 * because the bytes remain in a shared buffer.
 */
export function checkBase64(text: string, length?: number): void {
  const isShort = text.length <= SCRATCH_CHARACTERS;
  check(text, isShort ? scratch.write(text, "base64") : Buffer.from(text, "base64").length, length);
}

/**
 * Throws if the string is not canonical. The runtime's decoder skips unknown characters, and so writes fewer
 * bytes than the string implies. It also accepts the URL alphabet, and reads only the low byte of characters.
 */
function check(text: string, written: number, length: number | undefined): void {
  const isPlain =
    !text.includes("-") && !text.includes("_") && Buffer.byteLength(text, "utf8") === text.length;
  if (!isPlain || written !== encodedLength(text)) {
    throw new ProtocolError("invalid_base64", "not canonical base64");
  }
  if (length !== undefined && written !== length) {
    throw new ProtocolError("wrong_length", `${written} bytes instead of ${length}`);
  }
}

/** Returns `undefined` if the padding does not match the length, or if unused bits are set. */
function encodedLength(text: string): number | undefined {
  if (text.length % 4 !== 0) return undefined;
  const full = (text.length / 4) * 3;
  if (text.endsWith("==")) return LAST_OF_ONE_BYTE.includes(text.at(-3) ?? "") ? full - 2 : undefined;
  if (text.endsWith("=")) return LAST_OF_TWO_BYTES.includes(text.at(-2) ?? "") ? full - 1 : undefined;
  return full;
}
