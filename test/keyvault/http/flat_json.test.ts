import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readFlatJson } from "../../../keyvault/http/body.ts";
import { ProtocolError } from "../../../src/protocol/encoding/errors.ts";
import { parseJson, plainJson } from "../../../src/protocol/encoding/json.ts";

/** Returns the strict reader's result for a document: its value, or `refused`. */
function strictly(bytes: Buffer): { value: unknown } | "refused" {
  try {
    return { value: plainJson(parseJson(bytes)) };
  } catch (error) {
    if (error instanceof ProtocolError) return "refused";
    throw error;
  }
}

const names = fc.oneof(
  fc.constantFrom("tenant", "updated_at", "revoked_certs", "__proto__", "constructor", "1", "01", ""),
  fc.string(),
);
const numbers = fc.oneof(fc.maxSafeInteger(), fc.double(), fc.constantFrom(-0, 2 ** 53, 1e21));
const texts = fc.oneof(fc.string({ unit: "binary" }), fc.string({ unit: "grapheme" }), fc.string());
const members = fc.oneof(
  texts,
  numbers,
  fc.array(fc.oneof({ weight: 20, arbitrary: texts }, { weight: 1, arbitrary: fc.jsonValue() })),
  fc.array(fc.oneof({ weight: 20, arbitrary: fc.maxSafeInteger() }, { weight: 1, arbitrary: numbers })),
  fc.jsonValue({ maxDepth: 2 }),
);

/** Objects as JSON text. Members may repeat, and characters may be removed or inserted. */
const documents = fc
  .tuple(
    fc.array(fc.tuple(names, members), { maxLength: 5 }),
    fc.option(
      fc.tuple(
        fc.nat(),
        fc.nat({ max: 3 }),
        fc.constantFrom("", " ", "\\", '"', ",", "0", ".0", "[", "\ufeff"),
      ),
    ),
  )
  .map(([entries, change]) => {
    const text = `{${entries.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(",")}}`;
    if (change === null) return text;
    const [at, out, put] = [change[0] % (text.length + 1), change[1], change[2]];
    return text.slice(0, at) + put + text.slice(at + out);
  });

describe("readFlatJson", () => {
  test("returns the same as the strict reader, or undefined, for any input", () => {
    let taken = 0;
    fc.assert(
      fc.property(documents, (text) => {
        const bytes = Buffer.from(text);
        const flat = readFlatJson(bytes);
        if (flat === undefined) return;
        taken += 1;
        expect({ value: flat }).toEqual(strictly(bytes));
      }),
      { numRuns: 5_000 },
    );
    expect(taken).toBeGreaterThan(100);
  });

  test("parses the bodies that the service sends", () => {
    const body = {
      tenant: "acc-1",
      updated_at: 1_800_000_000,
      revoked_certs: ["cert-1", "Zürich-😀", ""],
      expires_at: [0, 1_800_000_000, -1],
    };
    expect(readFlatJson(Buffer.from(JSON.stringify(body)))).toEqual(body);
  });

  test.each([
    ["a duplicate key", '{"a":"1","a":"1"}'],
    ["a space", '{"a": "1"}'],
    ["an escape", '{"a":"\\u0031"}'],
    ["a lone surrogate", '{"a":"\\ud800"}'],
    ["minus zero", '{"a":-0}'],
    ["a fraction", '{"a":1.5}'],
    ["an integer beyond 2^53", '{"a":9007199254740992}'],
    ["a nested object", '{"a":{}}'],
    ["a nested list", '{"a":[[]]}'],
    ["a number in a list of strings", '{"a":["",1]}'],
    ["a fraction in a list", '{"a":[1.5]}'],
    ["an integer beyond 2^53 in a list", '{"a":[9007199254740992]}'],
    ["null", '{"a":null}'],
    ["a list", '["a"]'],
    ["keys that the engine reorders", '{"b":"","1":""}'],
    ["invalid JSON", '{"a":'],
    ["a byte order mark", '\ufeff{"a":"1"}'],
    ["excessive depth", "[".repeat(1_000_000)],
  ])("leaves %s to the strict reader", (_, text) => {
    expect(readFlatJson(Buffer.from(text))).toBeUndefined();
  });

  test("leaves invalid UTF-8 to the strict reader", () => {
    expect(readFlatJson(Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0x22, 0x7d]))).toBeUndefined();
  });
});
