import { describe, expect, test } from "vitest";
import { isPlainText } from "../src/plain_text.ts";
import { freeText, oneLine } from "../src/schemas.ts";

describe("text that people approve by", () => {
  test.each([
    ["Latin", "Ünïté & Söhne, 50 % (a/b)"],
    ["Arabic", "متجر الكتب"],
    ["Hebrew", "חנות"],
    ["Persian with a non-joiner", "می\u200cخواهم"],
    ["Hindi with a joiner", "क्\u200dष"],
    ["Sinhala with a joiner", "ශ්\u200dරී"],
    ["an emoji of several", "👩\u200d💻 👨🏽\u200d🚀 ❤\ufe0f\u200d🔥"],
    ["a heart with its selector", "❤\ufe0f"],
    ["a keycap", "1\ufe0f\u20e3"],
    ["a flag", "🇪🇺"],
    ["a Han variant", "葛\u{e0100}"],
    ["line breaks", "a\nb\tc"],
    ["an Arabic number sign", "\u0600١٢"],
  ])("may be %s", (_, text) => {
    expect(isPlainText(text)).toBe(true);
  });

  test.each([
    "\u00ad",
    "\u034f",
    "\u061c",
    "\u115f",
    "\u180e",
    "\u200b",
    "\u200c",
    "\u200d",
    "\u200e",
    "\u200f",
    "\u2028",
    "\u2029",
    "\u202a",
    "\u202b",
    "\u202c",
    "\u202d",
    "\u202e",
    "\u2060",
    "\u2061",
    "\u2062",
    "\u2063",
    "\u2064",
    "\u2066",
    "\u2067",
    "\u2068",
    "\u2069",
    "\u3164",
    "\ufe0f",
    "\ufeff",
    "\uffa0",
    "\ufff9",
    "\u{e0001}",
    "\u{e0041}",
    "\u{e007f}",
    "\u{e0100}",
    "\ud800",
    "\udc00",
  ])("never hides %j among Latin letters", (hidden) => {
    for (const text of [`Sh${hidden}op`, `${hidden}Shop`, `Shop${hidden}`, hidden]) {
      expect(isPlainText(text)).toBe(false);
    }
  });

  test("never hides a joiner twice, or at the end of an Arabic word", () => {
    expect(isPlainText("می\u200c\u200cخ")).toBe(false);
    expect(isPlainText("می\u200c")).toBe(false);
    expect(isPlainText("👩\u200d")).toBe(false);
  });

  test("is kept in NFC, so that what looks the same is the same", () => {
    expect(oneLine(9).parse(" Cafe\u0301 ")).toBe("Café");
    expect(freeText(9).parse("Cafe\u0301")).toBe("Café");
    expect(oneLine(4).safeParse("Cafe\u0301").success).toBe(true);
  });

  test("is refused in every schema of text for people", () => {
    for (const schema of [oneLine(9), freeText(9)]) expect(schema.safeParse("a\u202eb").success).toBe(false);
  });
});
