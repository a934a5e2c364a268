import { describe, expect, test } from "vitest";
import { inWords } from "../../src/console/core/forms.ts";
import { texts } from "../../src/console/texts/texts.ts";

describe("inWords", () => {
  test.each([
    ["Too small: expected string to have >=1 characters", "Is missing"],
    ["Too big: expected string to have <=100 characters", "Write at most 100 characters"],
    ["query.q: Too big: expected string to have <=100 characters", "Write at most 100 characters"],
    ["body: invalid_integer: outside ±(2^53−1)", "A number is too large, or has too many digits"],
    ["body.constraints[0].count: must be within ±(2^53−1)", "A number is too large, or has too many digits"],
    ["1e+21 has no canonical form", "A number is too large, or has too many digits"],
    [
      "tz is not an IANA time zone",
      "Write the time zone as the IANA database spells it, such as Europe/Berlin",
    ],
    ['Invalid option: expected one of "a"|"b"', "Choose one of those offered"],
    ['Unrecognized key: "x"', "This is not valid: check it"],
    ["The delegation request is no longer pending", "The delegation request is no longer pending"],
  ])("translates the API's message: %s", (message, words) => {
    expect(inWords(texts, message)).toBe(words);
  });

  test("replaces invisible and direction-changing characters with their code points", () => {
    expect(inWords(texts, 'Not a scope: "a\u202eb\u200b"')).toBe('Not a scope: "aU+202EbU+200B"');
  });
});
