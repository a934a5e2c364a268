import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Decimal, parseJson, plainJson } from "../../../src/protocol/encoding/json.ts";
import { collectGarbage } from "../../support/garbage.ts";

const bytes = (text: string) => Buffer.from(text, "utf8");
const parse = (text: string) => parseJson(bytes(text));
const refuses = (code: string) => expect.objectContaining({ code });

describe("strict JSON", () => {
  test("parses documents as the runtime does", () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ stringUnit: "binary", maxDepth: 4 }),
        fc.constantFrom(0, 2, "\t"),
        (value, indent) => {
          const text = JSON.stringify(value, null, indent);
          fc.pre(isSafe(JSON.parse(text)));
          return isDeepStrictEqual(plainJson(parse(text)), JSON.parse(text));
        },
      ),
      { numRuns: 1_000 },
    );
  });

  test("rejects every document with one changed character that the runtime rejects", () => {
    const seed = '{"a":[1,-2.5e3,true,null,"x\\u00e9\\n"],"b":{"c":""}}';
    fc.assert(
      fc.property(fc.nat(seed.length - 1), fc.string({ unit: "binary-ascii", maxLength: 2 }), (at, piece) => {
        const text = seed.slice(0, at) + piece + seed.slice(at + 1);
        return acceptedBy(JSON.parse, text) || !acceptedBy(parse, text);
      }),
      { numRuns: 5_000 },
    );
  });

  test.each([
    ["no content", ""],
    ["only space", " \n"],
    ["a byte-order mark", '\ufeff{"a":1}'],
    ["a second document", "{} {}"],
    ["a trailing comma in an object", '{"a":1,}'],
    ["a trailing comma in an array", "[1,]"],
    ["a leading comma", "[,1]"],
    ["a leading zero", "[01]"],
    ["a plus sign", "[+1]"],
    ["a fraction without a whole part", "[.5]"],
    ["a fraction without digits", "[1.]"],
    ["an exponent without digits", "[1e]"],
    ["a hexadecimal number", "[0x1]"],
    ["NaN", "[NaN]"],
    ["a comment", "[1/**/]"],
    ["single quotes", "['a']"],
    ["a key without quotes", "{a:1}"],
    ["a key without a value", '{"a"}'],
    ["an unterminated string", '["a'],
    ["an escape at the end", '["a\\'],
    ["an unknown escape", '["\\x41"]'],
    ["a short unicode escape", '["\\u12"]'],
    ["a line break in a string", '["a\nb"]'],
    ["a tab in a long string", `["${"a".repeat(100)}\t"]`],
    ["a null byte in a string", '["\u0000"]'],
    ["a no-break space between tokens", "[\u00a01]"],
    ["a wrong bracket", "[1}"],
    ["a missing bracket", "[[1]"],
    ["an extra bracket", "[1]]"],
    ["a misspelled literal", "[tru]"],
    ["a capitalized literal", "[True]"],
  ])("refuses %s", (_, text) => {
    expect(() => parse(text)).toThrow(refuses("invalid_json"));
  });

  test.each([
    ["at the top level", '{"a":1,"a":1}'],
    ["inside an array", '[{"a":{"b":1,"c":2,"b":3}}]'],
    ["spelled with an escape", '{"a":1,"\\u0061":2}'],
    ["named __proto__", '{"__proto__":1,"__proto__":2}'],
    ["with an empty name", '{"":1,"":2}'],
  ])("refuses a duplicate key %s", (_, text) => {
    expect(() => parse(text)).toThrow(refuses("duplicate_key"));
  });

  test("treats a key named __proto__ as an ordinary member", () => {
    const value = parse('{"__proto__":{"polluted":true}}');
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(Object.keys(value as object)).toEqual(["__proto__"]);
    expect(Object.hasOwn(plainJson(value) as object, "__proto__")).toBe(true);
  });

  test.each([
    ["a byte that never occurs in UTF-8", Buffer.from([0x22, 0xff, 0x22])],
    ["an overlong encoding", Buffer.from([0x22, 0xc0, 0x80, 0x22])],
    ["an encoded surrogate", Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
    ["a truncated character", Buffer.from([0x22, 0xc3, 0x22])],
    ["an escaped lone surrogate", bytes('"\\ud800"')],
    ["a lone surrogate in a key", bytes('{"\\udc00":1}')],
  ])("refuses %s", (_, document) => {
    expect(() => parseJson(document)).toThrow(refuses("invalid_utf8"));
  });

  test("decodes a pair of escaped surrogates as one character", () => {
    expect(parse('"\\ud83d\\ude00"')).toBe("😀");
  });

  test("allows 16 levels of nesting, but not 17", () => {
    const nested = (depth: number) => '{"a":['.repeat(depth / 2) + "]}".repeat(depth / 2);
    expect(() => parse(nested(16))).not.toThrow();
    expect(() => parse(`[${nested(16)}]`)).toThrow(refuses("too_deep"));
  });

  test("counts only levels that are open at the same time", () => {
    expect(parse(`[${Array(100).fill("[[]]").join(",")}]`)).toHaveLength(100);
  });

  test("allows 131072 bytes, but not 131073", () => {
    const document = (length: number) => bytes(`"${"é".repeat(10)}${"a".repeat(length - 22)}"`);
    expect(parseJson(document(131_072))).toHaveLength(131_072 - 12);
    expect(() => parseJson(document(131_073))).toThrow(refuses("too_large"));
  });

  test("checks the size before the content", () => {
    expect(() => parseJson(Buffer.alloc(131_073, 0xff))).toThrow(refuses("too_large"));
  });

  test.each(["0", "1", "-1", "9007199254740991", "-9007199254740991"])("parses %s as an integer", (text) => {
    expect(parse(text)).toBe(Number(text));
  });

  test.each(["9007199254740992", "-9007199254740992", "1".repeat(400)])("refuses the integer %s", (text) => {
    expect(() => parse(text)).toThrow(refuses("invalid_integer"));
  });

  test.each(["1.0", "1e0", "-0", "0.5", "1E+2", "20000000000e-1", "-0.0"])(
    "returns a Decimal for %s, which is not written as a plain integer",
    (text) => {
      expect(parse(text)).toEqual(new Decimal(Number(text)));
    },
  );

  test.each(["1e400", "-1e400", "9007199254740992.0", "1e16"])("refuses the number %s", (text) => {
    expect(() => parse(text)).toThrow(refuses("invalid_number"));
  });

  test.each([
    "9007199254740992",
    "-9007199254740992",
    "1764417600123456789",
    "9007199254740992.0",
    "1e16",
    "1e308",
  ])("marks the whole number %s as a bigint if the caller asks for marks", (text) => {
    const limits = { bytes: 1000, depth: 1, largeNumbers: "mark" as const };
    expect(plainJson(parseJson(bytes(`[${text}]`), limits))).toEqual([BigInt(Number(text))]);
  });

  test.each(["1e400", "-1e400", "1".repeat(400)])("marks the number %s, which no float can hold", (text) => {
    const limits = { bytes: 1000, depth: 1, largeNumbers: "mark" as const };
    const largest = BigInt(Number.MAX_VALUE) * (text.startsWith("-") ? -1n : 1n);
    expect(plainJson(parseJson(bytes(`[${text}]`), limits))).toEqual([largest]);
    expect(() => parse(text)).toThrow(expect.objectContaining({ name: "ProtocolError" }));
  });

  test("accepts the largest whole number with a fraction of zero", () => {
    expect(parse("9007199254740991.0")).toEqual(new Decimal(9007199254740991));
  });
});

test.each([
  ["ASCII", "a"],
  ["other characters", "é"],
])(
  "a stored name does not keep its source document in memory, if the document contains %s",
  (_, character) => {
    const heap = () => {
      collectGarbage();
      return process.memoryUsage().heapUsed;
    };
    const padding = character.repeat(50_000);
    const before = heap();
    const names = Array.from({ length: 60 }, (_, index) => {
      const document = parse(`{"name":"the name of document ${index}","padding":"${padding}"}`);
      return (document as { name: string }).name;
    });
    expect(heap() - before).toBeLessThan(1_000_000);
    expect(names[59]).toBe("the name of document 59");
  },
);

function isSafe(value: unknown): boolean {
  if (typeof value === "number") return !Number.isInteger(value) || Number.isSafeInteger(value);
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([key, member]) => key.isWellFormed() && isSafe(member));
}

function acceptedBy(read: (text: string) => unknown, text: string): boolean {
  try {
    read(text);
    return true;
  } catch {
    return false;
  }
}
