import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalBytes, canonicalJson, compareUtf8 } from "../../../src/protocol/encoding/canonical.ts";
import { independentCanonicalJson } from "../../support/canonical_oracle.ts";
import { canonicalValues } from "../../support/canonical_values.ts";

describe("canonical JSON", () => {
  test("equals the output of an independent implementation for random values", () => {
    fc.assert(
      fc.property(canonicalValues, (value) => {
        expect(canonicalJson(value)).toBe(independentCanonicalJson(value));
      }),
      { numRuns: 5_000 },
    );
  });

  test("stays the same after parsing and encoding again", () => {
    fc.assert(
      fc.property(canonicalValues, (value) => {
        const json = canonicalJson(value);
        expect(canonicalJson(JSON.parse(json))).toBe(json);
      }),
    );
  });

  test("sorts keys by UTF-8 bytes, not by UTF-16 units", () => {
    expect(canonicalJson({ "😀": 1, "\ufb33": 2, a: 3, "": 4 })).toBe('{"":4,"a":3,"\ufb33":2,"😀":1}');
  });

  test("sorts at every level", () => {
    expect(canonicalJson([{ b: { d: 1, c: 2 }, a: 3 }])).toBe('[{"a":3,"b":{"c":2,"d":1}}]');
  });

  test("escapes only the characters that RFC 8785 escapes, and U+2028 and U+2029", () => {
    expect(canonicalJson('"\\\b\f\n\r\t\u0000\u001f\u007f<>&/é\u2028\u2029')).toBe(
      '"\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\u007f<>&/é\\u2028\\u2029"',
    );
  });

  test("escapes U+2028 and U+2029 in keys", () => {
    expect(canonicalJson({ "\u2028": 1 })).toBe('{"\\u2028":1}');
  });

  test.each([
    [0, "0"],
    [-0, "0"],
    [500, "500"],
    [-1.5, "-1.5"],
    [1e-7, "1e-7"],
    [0.000001, "0.000001"],
    [2 ** 53 - 1, "9007199254740991"],
    [-(2 ** 53 - 1), "-9007199254740991"],
    [333333333.3333333, "333333333.3333333"],
  ])("writes %d as %s", (value, text) => {
    expect(canonicalJson(value)).toBe(text);
  });

  test("omits members that are undefined", () => {
    expect(canonicalJson({ a: undefined, b: 1 })).toBe('{"b":1}');
  });

  test("keeps a member named __proto__ like any other member", () => {
    expect(canonicalJson(JSON.parse('{"__proto__":1,"a":2}'))).toBe('{"__proto__":1,"a":2}');
  });

  test("sorts integer-like keys by their bytes, not in the runtime's order", () => {
    const value = {
      "9": 1,
      "10": 2,
      a: { "2": 1, "-1": 2, "01": 3 },
      "1a": 3,
      "4294967295": undefined,
      __proto: 4,
    };
    expect(canonicalJson(value)).toBe('{"10":2,"1a":3,"9":1,"__proto":4,"a":{"-1":2,"01":3,"2":1}}');
    expect(canonicalJson(JSON.parse('{"b":1,"__proto__":{"1":[{"0":2,"":3}]},"0":4}'))).toBe(
      '{"0":4,"__proto__":{"1":[{"":3,"0":2}]},"b":1}',
    );
  });

  test("equals the output of an independent implementation for keys that the runtime reorders", () => {
    const key = fc.oneof(
      fc.nat(120).map(String),
      fc.constantFrom("__proto__", "", "-1", "01", "a", "toJSON", "4294967294"),
    );
    fc.assert(
      fc.property(fc.dictionary(key, fc.dictionary(key, fc.nat())), (value) => {
        expect(canonicalJson(value)).toBe(independentCanonicalJson(value));
      }),
    );
  });

  test("equals the UTF-8 bytes that canonicalBytes returns", () => {
    expect(Buffer.from(canonicalBytes("é")).toString("hex")).toBe("22c3a922");
  });

  test.each([
    ["a whole number over 2^53−1", 2 ** 53, "invalid_number"],
    ["a whole number under −(2^53−1)", -(2 ** 53), "invalid_number"],
    ["infinity", Number.POSITIVE_INFINITY, "invalid_number"],
    ["NaN", Number.NaN, "invalid_number"],
    ["a lone surrogate", "\ud800", "invalid_utf8"],
    ["a lone surrogate in a key", { "\udfff": 1 }, "invalid_utf8"],
    ["undefined", undefined, "unsupported_value"],
    ["undefined in an array", [undefined], "unsupported_value"],
    ["a hole in an array", new Array(1), "unsupported_value"],
    ["a bigint", 1n, "unsupported_value"],
    ["a date", new Date(0), "unsupported_value"],
    ["bytes", Buffer.from("a"), "unsupported_value"],
    ["a map", new Map(), "unsupported_value"],
  ])("refuses %s", (_, value, code) => {
    expect(() => canonicalJson(value)).toThrow(expect.objectContaining({ code }));
  });

  test("allows 64 levels of nesting, but not 65", () => {
    const nested = (depth: number) => JSON.parse("[".repeat(depth) + "]".repeat(depth));
    expect(canonicalJson(nested(64))).toHaveLength(128);
    expect(() => canonicalJson(nested(65))).toThrow(expect.objectContaining({ code: "too_deep" }));
  });
});

describe("compareUtf8", () => {
  test("orders strings like their encoded bytes", () => {
    const text = fc.string({ unit: "binary" });
    fc.assert(
      fc.property(text, text, (left, right) => {
        expect(compareUtf8(left, right)).toBe(Buffer.compare(Buffer.from(left), Buffer.from(right)));
      }),
      { numRuns: 2_000 },
    );
  });
});
