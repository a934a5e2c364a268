import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeBase64, encodeBase64 } from "../../src/protocol/base64.ts";
import { ProtocolError } from "../../src/protocol/errors.ts";

describe("base64", () => {
  test("gives back every byte array", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        expect(Uint8Array.from(decodeBase64(encodeBase64(bytes), bytes.length))).toEqual(bytes);
      }),
    );
  });

  test("accepts one text only for each byte array", () => {
    fc.assert(
      fc.property(fc.base64String({ maxLength: 40 }), (text) => {
        const bytes = Buffer.from(text, "base64");
        if (encodeBase64(bytes) === text) expect(Buffer.from(decodeBase64(text)).equals(bytes)).toBe(true);
        else expect(() => decodeBase64(text)).toThrow(ProtocolError);
      }),
    );
  });

  test.each([
    ["unused bits that are not zero", "AB=="],
    ["no padding", "AA"],
    ["too much padding", "AA==="],
    ["padding in the middle", "AA==AA=="],
    ["a line break", "AAAA\nAAAA"],
    ["a trailing line break", "AAAA\n"],
    ["a space", "AA AA"],
    ["the URL alphabet", "-_-_"],
    ["a character outside the alphabet", "AA*A"],
    ["a character beyond ASCII", "AAÄA"],
    ["one character", "A"],
  ])("refuses %s", (_, text) => {
    expect(() => decodeBase64(text)).toThrow(expect.objectContaining({ code: "invalid_base64" }));
  });

  test.each([31, 33])("refuses %d bytes where 32 are due", (length) => {
    const text = encodeBase64(Buffer.alloc(length));
    expect(() => decodeBase64(text, 32)).toThrow(expect.objectContaining({ code: "wrong_length" }));
  });
});
