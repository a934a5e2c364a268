import fc from "fast-check";

const text = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 8 }),
  fc.string({ unit: "binary", maxLength: 6 }),
  fc.string({
    unit: fc.constantFrom(
      "\u2028",
      "\u2029",
      "\u0000",
      "\u001f",
      "\u007f",
      '"',
      "\\",
      "/",
      "<",
      "é",
      "\ud7ff",
      "\ue000",
      "\uffff",
      "𐀀",
      "😀",
    ),
    maxLength: 6,
  }),
);

const number = fc.oneof(
  fc.maxSafeInteger(),
  fc
    .double({ noNaN: true, noDefaultInfinity: true })
    .filter((value) => !Number.isInteger(value) || Number.isSafeInteger(value)),
  fc.constantFrom(0, -0, 1e-7, 1e-6, 0.1, 5e-324, 2 ** 53 - 1, -(2 ** 53 - 1), 123456.789, 1.5e-10),
);

/**
 * Generates any canonical value: strings from all Unicode planes, doubles, nested values and unusual keys.
 */
export const canonicalValues: fc.Arbitrary<unknown> = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    text,
    number,
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(text, tie("value"), { maxKeys: 5 }),
  ),
})).value;
