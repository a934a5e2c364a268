import { ProtocolError } from "./errors.ts";

const SCRATCH_CHARACTERS = 6144;
const LAST_OF_ONE_BYTE = "AQgw";
const LAST_OF_TWO_BYTES = "AEIMQUYcgkosw048";
const scratch = Buffer.allocUnsafeSlow(SCRATCH_CHARACTERS);

/** Standard base64 with padding of `bytes` (wire format §2). */
export function encodeBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}

/**
 * Bytes of a canonical base64 text: standard alphabet, padded, unused bits zero, no white space (wire format
 * §2).
 *
 * @param length bytes the result must have; any when left out Throws `ProtocolError` `invalid_base64`, or
 * `wrong_length` when the text is canonical but of another length
 */
export function decodeBase64(text: string, length?: number): Uint8Array {
  const bytes = Buffer.from(text, "base64");
  check(text, bytes.length, length);
  return bytes;
}

/**
 * As {@link decodeBase64} without the bytes, and without garbage for the usual sizes. For texts that are not
 * secret.
 */
export function checkBase64(text: string, length?: number): void {
  const isShort = text.length <= SCRATCH_CHARACTERS;
  check(text, isShort ? scratch.write(text, "base64") : Buffer.from(text, "base64").length, length);
}

/**
 * The runtime's decoder passes over what it does not know, and so writes fewer bytes than the text has room
 * for, unless every character counted. Beyond that it takes the URL alphabet, and looks at the low byte only
 * of characters beyond Latin-1.
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

/**
 * Bytes that a text of this length and padding encodes; `undefined` when they do not fit each other or unused
 * bits are set.
 */
function encodedLength(text: string): number | undefined {
  if (text.length % 4 !== 0) return undefined;
  const full = (text.length / 4) * 3;
  if (text.endsWith("==")) return LAST_OF_ONE_BYTE.includes(text.at(-3) ?? "") ? full - 2 : undefined;
  if (text.endsWith("=")) return LAST_OF_TWO_BYTES.includes(text.at(-2) ?? "") ? full - 1 : undefined;
  return full;
}
