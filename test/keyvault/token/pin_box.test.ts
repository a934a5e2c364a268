import fc from "fast-check";
import { expect, test } from "vitest";
import { createOffer, decryptPin, encryptPin, MAX_PIN_BYTES } from "../../../keyvault/token/pin_box.ts";

test("decryptPin returns the PIN to the child that made the offer, whatever its bytes", () => {
  const offer = createOffer();
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: MAX_PIN_BYTES }), (pin) => {
      expect(decryptPin(offer, encryptPin(pin, offer.publicKey))).toEqual(Buffer.from(pin));
    }),
    { numRuns: 50 },
  );
});

test("decryptPin returns undefined to a different child, even of the same token", () => {
  const [one, other] = [createOffer(), createOffer()];
  const box = encryptPin(Buffer.from("0123456789abcdef"), one.publicKey);
  expect(decryptPin(other, box)).toBeUndefined();
  expect(decryptPin({ publicKey: other.publicKey, privateKey: one.privateKey }, box)).toBeUndefined();
  expect(decryptPin(one, box)).toBeDefined();
});

test("decryptPin returns undefined for a box that was altered, shortened or lengthened", () => {
  const offer = createOffer();
  const box = encryptPin(Buffer.from("0123456789abcdef"), offer.publicKey);
  for (let at = 0; at < box.length; at += 1) {
    const altered = Buffer.from(box);
    altered[at]! ^= 1;
    expect(decryptPin(offer, altered), `byte ${at}`).toBeUndefined();
  }
  expect(decryptPin(offer, box.subarray(1))).toBeUndefined();
  expect(decryptPin(offer, Buffer.concat([box, Buffer.alloc(1)]))).toBeUndefined();
});

test("encryptPin reveals neither the PIN nor its length, and never returns the same box twice", () => {
  const { publicKey } = createOffer();
  const [short, long] = [
    encryptPin(Buffer.from("1"), publicKey),
    encryptPin(Buffer.alloc(255, 0x31), publicKey),
  ];
  expect(short.length).toBe(long.length);
  expect(long.includes(Buffer.alloc(8, 0x31))).toBe(false);
  expect(encryptPin(Buffer.from("1"), publicKey).equals(short)).toBe(false);
});

test("encryptPin accepts PINs of 1 to 255 bytes and only offers of the right length", () => {
  const { publicKey } = createOffer();
  expect(() => encryptPin(Buffer.alloc(0), publicKey)).toThrow(RangeError);
  expect(() => encryptPin(Buffer.alloc(256, 1), publicKey)).toThrow(RangeError);
  expect(() => encryptPin(Buffer.alloc(1), publicKey.subarray(1))).toThrow(RangeError);
});
