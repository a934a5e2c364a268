import { describe, expect, test } from "vitest";
import { isPlainLine, isPlainText } from "../../src/input/plain_text.ts";
import { freeText, oneLine } from "../../src/input/schemas.ts";

describe("the plain-text check", () => {
  test.each([
    ["Latin", "Ünïté & Söhne, 50 % (a/b)"],
    ["Arabic", "متجر الكتب"],
    ["Hebrew", "חנות"],
    ["Persian with a non-joiner", "می\u200cخواهم"],
    ["Hindi with a joiner", "क्\u200dष"],
    ["Sinhala with a joiner", "ශ්\u200dරී"],
    ["a combined emoji", "👩\u200d💻 👨🏽\u200d🚀 ❤\ufe0f\u200d🔥"],
    ["a heart with its selector", "❤\ufe0f"],
    ["a keycap", "1\ufe0f\u20e3"],
    ["a flag", "🇪🇺"],
    ["a Han variant", "葛\u{e0100}"],
    ["line breaks", "a\nb\tc"],
    ["an Arabic number sign", "\u0600١٢"],
    ["Japanese with a wide space", "山田\u3000たろう\u3000タロウ"],
    ["an emoji that Unicode only reserves", "new \u{1faff} and \u{1f8ff}"],
    ["Thai", "ที่นี่มีน้ำและผู้ใหญ่"],
    ["Lao", "ເຂົ້າ"],
    ["Hindi", "र्त्स्न्य क्ष्म्यूँ हिन्दी"],
    ["Vietnamese in NFD", "Nguyễn Việt Trường".normalize("NFD")],
    ["Tibetan", "བསྒྲུབས་ ཧཱུྃ་"],
    ["Hebrew with points and accents", "בְּרֵאשִׁ֖ית בָּרָ֣א שָּׁ֑"],
    ["Arabic with vowels", "مُحَمَّدٌ رَسُولُ ٱللَّٰهِ"],
    ["Burmese", "လျှော့ မြှောက်ကြွှေ့ာ်"],
    ["Khmer", "ស្ត្រី"],
    ["four marks on a letter", "a\u0301\u0302\u0303\u0304b"],
    ["empty", ""],
  ])("accepts %s", (_, text) => {
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
    "\u00a0",
    "\u1680",
    "\u2000",
    "\u200a",
    "\u202f",
    "\u205f",
    "\u3000",
    "\u2800",
    "\ufffc",
    "\u{13430}",
    "\u{1343f}",
    "\u{13441}",
    "\u{1d159}",
    "\ue000",
    "\uf8ff",
    "\u{f0000}",
    "\u{10fffd}",
    "\u0378",
    "\ufdd0",
    "\uffff",
    "\u{50000}",
    "\ud800",
    "\udc00",
  ])("rejects %j among Latin letters", (hidden) => {
    for (const text of [`Sh${hidden}op`, `${hidden}Shop`, `Shop${hidden}`, hidden]) {
      expect(isPlainText(text)).toBe(false);
    }
  });

  test("rejects two joiners in a row, and a joiner at the end of an Arabic word", () => {
    expect(isPlainText("می\u200c\u200cخ")).toBe(false);
    expect(isPlainText("می\u200c")).toBe(false);
    expect(isPlainText("👩\u200d")).toBe(false);
  });

  test("accepts combining marks only on letters, and at most four on one letter", () => {
    for (const text of ["\u0301a", "a\n\u0301b", "a \u0338b", "\u0903", "\ufe0f"]) {
      expect(isPlainText(text)).toBe(false);
    }
    expect(isPlainText(`a${"\u0301".repeat(5)}`)).toBe(false);
    expect(isPlainText("Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334algo")).toBe(false);
    expect(isPlainText("a\u20dd\u20dd\u20dd\u20dd\u20dd")).toBe(false);
  });

  test("rejects a text of only spaces", () => {
    for (const text of [" ", "   ", "\n", " \t\r\n"]) expect(isPlainText(text)).toBe(false);
    expect(freeText(9).safeParse("  ").success).toBe(false);
    expect(freeText(9).safeParse("").success).toBe(true);
  });

  test("accepts a line only without control characters and without spaces at its ends", () => {
    expect(["", "a", "a b", "/orders/ä"].map(isPlainLine)).toEqual([true, true, true, true]);
    for (const text of ["a\nb", "a\tb", "a\u0085b", "a\u0000", " a", "a ", "a\u202eb", " "]) {
      expect(isPlainLine(text)).toBe(false);
    }
  });

  test("lets schemas normalize text to NFC, so that texts that look the same are equal", () => {
    expect(oneLine(9).parse(" Cafe\u0301 ")).toBe("Café");
    expect(freeText(9).parse("Cafe\u0301")).toBe("Café");
    expect(oneLine(4).safeParse("Cafe\u0301").success).toBe(true);
  });

  test("applies to every schema of human-readable text", () => {
    for (const schema of [oneLine(9), freeText(9)]) expect(schema.safeParse("a\u202eb").success).toBe(false);
  });
});
