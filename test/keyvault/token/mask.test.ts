import { expect, test } from "vitest";
import { applyMask, createMask } from "../../../keyvault/token/frames.ts";

const SECRET_BYTES = 32;
const NONCE_AND_TAG_BYTES = 28;
const wrapped = { kek: "kek-1", box: Buffer.alloc(NONCE_AND_TAG_BYTES + SECRET_BYTES) };

test("a masked secret shows nothing of itself, never looks the same twice, and is whole without its mask", () => {
  const secret = Buffer.alloc(SECRET_BYTES, 7);
  const masks = [createMask(wrapped), createMask(wrapped)] as const;
  const [one, other] = masks.map((mask) => applyMask(Buffer.from(secret), mask)) as [Uint8Array, Uint8Array];
  for (const masked of [one, other]) expect(masked.filter((byte) => byte === 7).length).toBeLessThan(8);
  expect(one).not.toEqual(other);
  expect(applyMask(one, masks[0])).toEqual(secret);
  expect(applyMask(other, masks[1])).toEqual(secret);
});

test("no byte of a secret goes without its mask: one that is too short is refused", () => {
  const secret = Buffer.alloc(SECRET_BYTES, 7);
  expect(createMask(wrapped)).toHaveLength(SECRET_BYTES);
  expect(() => applyMask(secret, createMask(wrapped).subarray(1))).toThrow(/shorter/);
  expect(() => applyMask(secret, Buffer.alloc(0))).toThrow(/shorter/);
});
