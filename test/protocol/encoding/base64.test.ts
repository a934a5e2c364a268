import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkBase64, decodeBase64, encodeBase64 } from "../../../src/protocol/encoding/base64.ts";
import { ProtocolError } from "../../../src/protocol/encoding/errors.ts";

describe("base64", () => {
  test("decodes every encoded byte array to the same bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        expect(Uint8Array.from(decodeBase64(encodeBase64(bytes), bytes.length))).toEqual(bytes);
      }),
    );
  });

  test("accepts a string only if it is the canonical encoding of its bytes", () => {
    const character = fc.oneof(
      { weight: 20, arbitrary: fc.constantFrom(..."ABCDQgwz0189+/") },
      fc.constantFrom(..."=-_ \n\0*ÄŁ\u0141\u2041😀"),
    );
    const almost = fc.tuple(fc.string({ unit: character, maxLength: 14 }), fc.constantFrom("", "=", "=="));
    fc.assert(
      fc.property(almost, ([body, padding]) => {
        const text = body + padding;
        if (encodeBase64(Buffer.from(text, "base64")) !== text) {
          return [decodeBase64, checkBase64].every((read) => isRefused(() => read(text)));
        }
        return Buffer.compare(decodeBase64(text), Buffer.from(text, "base64")) === 0;
      }),
      { numRuns: 20_000 },
    );
  });

  test.each([4605, 4606, 4607, 4608, 4609, 4610, 10_000])("decodes and checks %d bytes", (length) => {
    const bytes = Buffer.alloc(length, 0xa5);
    const text = encodeBase64(bytes);
    expect(Buffer.compare(decodeBase64(text, length), bytes)).toBe(0);
    expect(() => checkBase64(text, length)).not.toThrow();
    expect(() => checkBase64(text, length + 1)).toThrow(expect.objectContaining({ code: "wrong_length" }));
    for (const read of [decodeBase64, checkBase64]) {
      expect(() => read(` ${text.slice(1)}`)).toThrow(ProtocolError);
    }
  });

  test.each([
    ["unused bits that are not zero", "AB=="],
    ["missing padding", "AA"],
    ["too much padding", "AA==="],
    ["padding in the middle", "AA==AA=="],
    ["a line break", "AAAA\nAAAA"],
    ["a trailing line break", "AAAA\n"],
    ["a space", "AA AA"],
    ["the URL alphabet", "-_-_"],
    ["a character outside the alphabet", "AA*A"],
    ["a character beyond ASCII", "AAÄA"],
    ["a character whose low byte is in the alphabet", "\u0141AAA"],
    ["padding alone", "===="],
    ["one character", "A"],
  ])("refuses %s", (_, text) => {
    expect(() => decodeBase64(text)).toThrow(expect.objectContaining({ code: "invalid_base64" }));
  });

  test.each([31, 33])("rejects %d bytes if 32 are required", (length) => {
    const text = encodeBase64(Buffer.alloc(length));
    expect(() => decodeBase64(text, 32)).toThrow(expect.objectContaining({ code: "wrong_length" }));
  });
});

function isRefused(read: () => unknown): boolean {
  try {
    read();
    return false;
  } catch (error) {
    return error instanceof ProtocolError;
  }
}
