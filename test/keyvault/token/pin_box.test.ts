import fc from "fast-check";
import { expect, test } from "vitest";
import { createOffer, MAX_PIN_BYTES, openPin, sealPin } from "../../../keyvault/token/pin_box.ts";

test("the child that offered reads the PIN, whatever bytes it has", () => {
  const offer = createOffer();
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: MAX_PIN_BYTES }), (pin) => {
      expect(openPin(offer, sealPin(pin, offer.publicKey))).toEqual(Buffer.from(pin));
    }),
    { numRuns: 50 },
  );
});

test("another child, also one of the same token, reads nothing", () => {
  const [one, other] = [createOffer(), createOffer()];
  const box = sealPin(Buffer.from("0123456789abcdef"), one.publicKey);
  expect(openPin(other, box)).toBeUndefined();
  expect(openPin({ publicKey: other.publicKey, privateKey: one.privateKey }, box)).toBeUndefined();
  expect(openPin(one, box)).toBeDefined();
});

test("a box that was altered anywhere, cut or prolonged is not opened", () => {
  const offer = createOffer();
  const box = sealPin(Buffer.from("0123456789abcdef"), offer.publicKey);
  for (let at = 0; at < box.length; at += 1) {
    const altered = Buffer.from(box);
    altered[at]! ^= 1;
    expect(openPin(offer, altered), `byte ${at}`).toBeUndefined();
  }
  expect(openPin(offer, box.subarray(1))).toBeUndefined();
  expect(openPin(offer, Buffer.concat([box, Buffer.alloc(1)]))).toBeUndefined();
});

test("a box shows neither the PIN nor its length, and is never made twice", () => {
  const { publicKey } = createOffer();
  const [short, long] = [sealPin(Buffer.from("1"), publicKey), sealPin(Buffer.alloc(255, 0x31), publicKey)];
  expect(short.length).toBe(long.length);
  expect(long.includes(Buffer.alloc(8, 0x31))).toBe(false);
  expect(sealPin(Buffer.from("1"), publicKey).equals(short)).toBe(false);
});

test("a PIN of 1 and of 255 bytes is taken, none and one more are not, nor is an offer of another length", () => {
  const { publicKey } = createOffer();
  expect(() => sealPin(Buffer.alloc(0), publicKey)).toThrow(RangeError);
  expect(() => sealPin(Buffer.alloc(256, 1), publicKey)).toThrow(RangeError);
  expect(() => sealPin(Buffer.alloc(1), publicKey.subarray(1))).toThrow(RangeError);
});
