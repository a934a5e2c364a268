const FIELD_LOW_BYTE = 0xed;

/** Canonical encodings of the eight points whose order divides 8, in hex (RFC 8032 §5.1.2). */
export const SMALL_ORDER_POINTS: readonly string[] = [
  "0100000000000000000000000000000000000000000000000000000000000000",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0000000000000000000000000000000000000000000000000000000000000080",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
];

/** The points with x = 0, encoded with the sign bit of x set, which is not canonical. */
const NEGATIVE_ZERO_POINTS: readonly string[] = [
  "0100000000000000000000000000000000000000000000000000000000000080",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
];

/**
 * Returns whether strict verification accepts 32 bytes as a public key or as the first half of a signature: y
 * is below 2^255−19, and the point is neither a negative zero nor of small order. Does not check that the
 * point is on the curve, because verification fails for any other point.
 */
export function isStrictPoint(encoded: Uint8Array): boolean {
  if (isBeyondField(encoded)) return false;
  const hex = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.byteLength).toString("hex");
  return !SMALL_ORDER_POINTS.includes(hex) && !NEGATIVE_ZERO_POINTS.includes(hex);
}

function isBeyondField(encoded: Uint8Array): boolean {
  if (((encoded[31] ?? 0) & 0x7f) !== 0x7f || (encoded[0] ?? 0) < FIELD_LOW_BYTE) return false;
  return encoded.subarray(1, 31).every((byte) => byte === 0xff);
}
