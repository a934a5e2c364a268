import fc from "fast-check";
import { canonicalJson } from "../../../src/protocol/encoding/canonical.ts";
import { ProtocolError } from "../../../src/protocol/encoding/errors.ts";
import { parseJson, plainJson } from "../../../src/protocol/encoding/json.ts";
import { canonicalValues } from "../../support/canonical_values.ts";

/** Parses the body of a request as strictly as the Python guard. Throws `ProtocolError`. */
export function readBody(text: string): unknown {
  const bytes = Buffer.from(text);
  return plainJson(parseJson(bytes, { bytes: bytes.length, depth: 64 }));
}

/** Returns a document's canonical form, or `null` if it is refused. */
export function canonicalForm(text: string): string | null {
  try {
    return canonicalJson(readBody(text));
  } catch (error) {
    if (error instanceof ProtocolError) return null;
    throw error;
  }
}

const SPACES = fc.constantFrom("", "", "", " ", "\n", "\t\r ");
const digits = (maxLength: number) => fc.string({ unit: fc.constantFrom(..."0123456789"), maxLength });

/** Numbers as documents can write them: many digits, fractions, exponents, and some that are not JSON. */
const writtenNumber = fc
  .tuple(
    fc.constantFrom("", "", "-", "+"),
    fc.oneof(fc.maxSafeInteger().map(String), digits(20), fc.constantFrom("0", "9007199254740993")),
    fc.oneof(
      fc.constant(""),
      digits(18).map((text) => `.${text}`),
    ),
    fc.oneof(
      fc.constant(""),
      fc.integer({ min: -330, max: 310 }).map((exponent) => `e${exponent}`),
      fc.constantFrom("E+2", "e", "E-07"),
    ),
  )
  .map((parts) => parts.join(""));

const writtenText = fc
  .array(
    fc.oneof(
      fc.string({ unit: "binary", maxLength: 3 }).map((text) => JSON.stringify(text).slice(1, -1)),
      fc.nat(0xffff).map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`),
      fc.integer({ min: 0xd7fe, max: 0xe001 }).map((unit) => `\\u${unit.toString(16).toUpperCase()}`),
      fc.constantFrom("\\/", "\\b", "\\'", "\t", "\u2028", "\ufeff", "\\ud83d\\ude00", "\u007f"),
    ),
    { maxLength: 3 },
  )
  .map((parts) => `"${parts.join("")}"`);

const written: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => {
  const spaced = fc.tuple(SPACES, tie("value"), SPACES).map((parts) => parts.join(""));
  const member = fc.tuple(fc.oneof(fc.constantFrom('"a"', '"b"'), writtenText), spaced);
  return {
    value: fc.oneof(
      { depthSize: "small" },
      writtenNumber,
      writtenText,
      fc.constantFrom("true", "false", "null", "NaN", "Infinity", "-Infinity", "nul"),
      fc.array(spaced, { maxLength: 4 }).map((items) => `[${items.join(",")}]`),
      fc.array(member, { maxLength: 4 }).map((pairs) => `{${pairs.map((pair) => pair.join(":")).join(",")}}`),
    ),
  };
}).value;

/** Documents with one character removed, added or replaced. */
const damaged = fc
  .tuple(
    canonicalValues,
    fc.nat(),
    fc.constantFrom("", "", "{", "[", '"', "\\", ",", ":", "0", "-", "\u0000"),
  )
  .map(([value, place, character]) => {
    const text = JSON.stringify(value);
    const at = place % text.length;
    return `${text.slice(0, at)}${character}${text.slice(at + 1)}`;
  });

/** Documents to compare two implementations with: canonical values, and texts that are unusual or no JSON. */
export const documents: fc.Arbitrary<string> = fc
  .oneof(
    canonicalValues.map((value) => JSON.stringify(value)),
    written,
    damaged,
  )
  // A lone surrogate has no UTF-8, so no document contains one.
  .map((text) => text.toWellFormed());
